-- From version 1 to version 2: A2A. schema.sql says what these are for.

ALTER TABLE agents ADD COLUMN changed_at INTEGER NOT NULL DEFAULT 0;
UPDATE agents SET changed_at = created_at;
ALTER TABLE handoffs ADD COLUMN context_id TEXT;
ALTER TABLE messages ADD COLUMN envelope TEXT;

CREATE INDEX threads_inbox_by_change ON threads (recipient, state, updated_at);
CREATE INDEX threads_pair_by_change  ON threads (sender, recipient, state, updated_at) WHERE state <> 'pending';

CREATE TABLE boxes (
    recipient       INTEGER NOT NULL REFERENCES agents,
    sender          INTEGER NOT NULL REFERENCES agents,
    state           TEXT NOT NULL CHECK (state IN ('pending', 'accepted', 'input_required', 'completed', 'failed',
                                                   'rejected', 'cancelled')),
    threads         INTEGER NOT NULL CHECK (threads >= 0),
    PRIMARY KEY (recipient, sender, state)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER threads_counted AFTER INSERT ON threads BEGIN
    INSERT INTO boxes (recipient, sender, state, threads) VALUES (new.recipient, new.sender, new.state, 1)
        ON CONFLICT DO UPDATE SET threads = threads + 1;
END;

CREATE TRIGGER threads_counted_again AFTER UPDATE OF state ON threads WHEN old.state <> new.state BEGIN
    UPDATE boxes SET threads = threads - 1
        WHERE recipient = old.recipient AND sender = old.sender AND state = old.state;
    INSERT INTO boxes (recipient, sender, state, threads) VALUES (new.recipient, new.sender, new.state, 1)
        ON CONFLICT DO UPDATE SET threads = threads + 1;
END;

INSERT INTO boxes (recipient, sender, state, threads)
    SELECT recipient, sender, state, count(*) FROM threads GROUP BY recipient, sender, state;

CREATE TABLE contexts (
    agent           INTEGER NOT NULL REFERENCES agents,
    context_id      TEXT NOT NULL,
    thread          INTEGER NOT NULL,
    PRIMARY KEY (agent, context_id, thread)
) STRICT, WITHOUT ROWID;

CREATE TABLE webhooks (
    id              INTEGER PRIMARY KEY,
    thread          INTEGER NOT NULL REFERENCES threads,
    sender          INTEGER NOT NULL REFERENCES agents,
    name            TEXT NOT NULL,
    url             TEXT NOT NULL,
    token           TEXT,
    scheme          TEXT,
    credentials     TEXT,
    created_at      INTEGER NOT NULL,
    generation      INTEGER NOT NULL,
    told            INTEGER NOT NULL DEFAULT 0,
    tries           INTEGER NOT NULL DEFAULT 0,
    due_at          INTEGER,
    UNIQUE (thread, name)
) STRICT;

CREATE INDEX webhooks_due ON webhooks (sender, due_at) WHERE due_at IS NOT NULL;

CREATE TABLE dead_letters (
    id              INTEGER PRIMARY KEY,
    ulid            BLOB NOT NULL UNIQUE CHECK (length(ulid) = 16),
    webhook         INTEGER NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    generation      INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    tries           INTEGER NOT NULL,
    error           TEXT NOT NULL,
    died_at         INTEGER NOT NULL,
    due_at          INTEGER
) STRICT;

CREATE INDEX dead_letters_of_webhook ON dead_letters (webhook);
CREATE INDEX dead_letters_due ON dead_letters (due_at) WHERE due_at IS NOT NULL;
