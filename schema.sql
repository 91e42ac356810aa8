-- The data file of agentrelay: the whole data model, as of the version in src/store/schema.rs.
--
-- Ids are ULIDs of 16 bytes; their text form lives on the wire only. Tables refer to each other by integer rows.
-- Times are milliseconds since 1970 (UTC). Order comes from rows and from events.seq, never from a time.
-- JSON columns hold documents as their author sent them.

-- What there is one of.
CREATE TABLE relay (
    id              INTEGER PRIMARY KEY CHECK (id = 1),
    default_agent   INTEGER REFERENCES agents,              -- whom commands without --as mean
    checked_at      INTEGER NOT NULL DEFAULT 0              -- written by the readiness check
) STRICT;

-- Agents are never deleted: a thread keeps its participants.
CREATE TABLE agents (
    id              INTEGER PRIMARY KEY,
    ulid            BLOB NOT NULL UNIQUE CHECK (length(ulid) = 16),
    handle          TEXT NOT NULL,                          -- the present one; see handles
    name            TEXT NOT NULL,
    email           TEXT,
    role            TEXT,
    description     TEXT,
    skills          TEXT NOT NULL DEFAULT '[]',             -- JSON array of strings
    repos_owned     TEXT NOT NULL DEFAULT '[]',             -- JSON array of strings
    created_at      INTEGER NOT NULL,
    disabled_at     INTEGER,
    changed_at      INTEGER NOT NULL DEFAULT 0              -- when its card last looked different
) STRICT;

CREATE INDEX agents_by_handle ON agents (handle);

-- Every handle that an agent has or had. One that was given is never given to another agent, so that nobody inherits
-- another's mail; a former handle keeps reaching its agent.
CREATE TABLE handles (
    handle          TEXT PRIMARY KEY,
    agent           INTEGER NOT NULL REFERENCES agents
) STRICT, WITHOUT ROWID;

-- Keys are kept as SHA-256 only.
CREATE TABLE keys (
    id              INTEGER PRIMARY KEY,
    ulid            BLOB NOT NULL UNIQUE CHECK (length(ulid) = 16),
    agent           INTEGER NOT NULL REFERENCES agents,
    hash            BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    prefix          TEXT NOT NULL,                          -- the first characters, for people
    label           TEXT,
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER,
    revoked_at      INTEGER,
    last_used_at    INTEGER                                 -- to the minute
) STRICT;

CREATE INDEX keys_of_agent ON keys (agent);

CREATE TABLE blocks (
    blocker         INTEGER NOT NULL REFERENCES agents,
    blocked         INTEGER NOT NULL REFERENCES agents,
    reason          TEXT,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (blocker, blocked)
) STRICT, WITHOUT ROWID;

-- A handoff's record. Small and of fixed width but for the last columns, because each change writes it anew and each
-- list reads it.
CREATE TABLE threads (
    id                  INTEGER PRIMARY KEY,                -- ascending: the order of creation
    ulid                BLOB NOT NULL UNIQUE CHECK (length(ulid) = 16),
    sender              INTEGER NOT NULL REFERENCES agents,
    recipient           INTEGER NOT NULL REFERENCES agents CHECK (recipient <> sender),
    state               TEXT NOT NULL CHECK (state IN ('pending', 'accepted', 'input_required', 'completed', 'failed',
                                                       'rejected', 'cancelled')),
    generation          INTEGER NOT NULL CHECK (generation >= 1),       -- the number of its changes
    message_count       INTEGER NOT NULL CHECK (message_count >= 1),
    intent              TEXT NOT NULL CHECK (intent IN ('inform', 'ask_question', 'propose_action')),
    sender_read         INTEGER NOT NULL,                   -- sequence_no up to which each side has read
    recipient_read      INTEGER NOT NULL,
    sender_unread       INTEGER NOT NULL DEFAULT 0,         -- the other side's messages after the first and after that
    recipient_unread    INTEGER NOT NULL DEFAULT 0,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    accepted_at         INTEGER,
    completed_at        INTEGER,
    cancelled_at        INTEGER,
    session_id          TEXT,                               -- of the recipient who accepted
    summary_preview     TEXT NOT NULL,
    result_summary      TEXT                                -- written with the last change of state
) STRICT;

-- Inbox and sent items: of one state, of all states, and since a moment. Each list reads one range, backwards. A thread
-- that never changed since it was sent is found by its creation, so that a new one is in two indexes less.
CREATE INDEX threads_inbox_by_state  ON threads (recipient, state, id);
CREATE INDEX threads_inbox           ON threads (recipient, id);
CREATE INDEX threads_inbox_by_update ON threads (recipient, updated_at, state) WHERE generation > 1;
CREATE INDEX threads_sent_by_state   ON threads (sender, state, id);
CREATE INDEX threads_sent            ON threads (sender, id);
CREATE INDEX threads_sent_by_update  ON threads (sender, updated_at, state) WHERE generation > 1;

-- The same boxes by their last change, and the sent items of one recipient. Several states are merged. There are many
-- pairs of agents, and a new handoff would touch a page for each: what is pending between two is looked for in the inbox.
CREATE INDEX threads_inbox_by_change ON threads (recipient, state, updated_at);
CREATE INDEX threads_pair_by_change  ON threads (sender, recipient, state, updated_at) WHERE state <> 'pending';

-- How many threads are in which state between two agents: a list says how long it is without counting.
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

-- What the sender said beside the first message. Written once; a thread without any of it has no row here.
CREATE TABLE handoffs (
    thread          INTEGER PRIMARY KEY REFERENCES threads,
    idempotency_key TEXT,                                   -- shown to the sender only
    metadata        TEXT,                                   -- JSON object, without that key
    proposed_action TEXT,                                   -- JSON object, with the intent propose_action
    context_id      TEXT                                    -- the conversation that it is part of; NULL: one of its own
) STRICT;

-- The threads of a conversation, for each of their participants. One of its own has no row here: its name is the
-- thread's id.
CREATE TABLE contexts (
    agent           INTEGER NOT NULL REFERENCES agents,
    context_id      TEXT NOT NULL,
    thread          INTEGER NOT NULL,                       -- no reference: each new thread would be looked for here
    PRIMARY KEY (agent, context_id, thread)
) STRICT, WITHOUT ROWID;

-- Clustered by thread: reading a thread is reading one range.
CREATE TABLE messages (
    thread          INTEGER NOT NULL REFERENCES threads,
    sequence_no     INTEGER NOT NULL CHECK (sequence_no >= 1),
    ulid            BLOB NOT NULL CHECK (length(ulid) = 16),
    generation      INTEGER NOT NULL,                       -- the change of the thread that brought it
    author          INTEGER NOT NULL REFERENCES agents,
    created_at      INTEGER NOT NULL,
    role            TEXT,                                   -- what the author called itself
    body            TEXT NOT NULL,                          -- the text parts
    parts           TEXT,                                   -- JSON array; NULL when the body is the only part
    payload         TEXT,                                   -- JSON object
    envelope        TEXT,                                   -- JSON object: what the author's protocol says around it
    PRIMARY KEY (thread, sequence_no)
) STRICT, WITHOUT ROWID;

-- An artifact belongs to the change that brought it: the handoff itself (generation 1), a message or a transition.
CREATE TABLE artifacts (
    thread          INTEGER NOT NULL REFERENCES threads,
    generation      INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    author          INTEGER NOT NULL REFERENCES agents,
    document        TEXT NOT NULL,                          -- JSON object
    PRIMARY KEY (thread, generation, position)
) STRICT, WITHOUT ROWID;

-- The log: one row for everything that happened. Audit, streams, retries and deliveries all read it.
CREATE TABLE events (
    seq             INTEGER PRIMARY KEY,                    -- ascending; rows are never deleted
    at              INTEGER NOT NULL,
    kind            TEXT NOT NULL,                          -- src/domain/event.rs has the list
    actor           INTEGER REFERENCES agents,              -- NULL: the operator
    thread          INTEGER REFERENCES threads,
    generation      INTEGER,                                -- of the thread, after the event
    state           TEXT CHECK (state IN ('pending', 'accepted', 'input_required', 'completed', 'failed', 'rejected',
                                          'cancelled')),    -- of the thread, after the event
    sequence_no     INTEGER,                                -- of the message that came with it
    agent           INTEGER REFERENCES agents,              -- when it concerns an agent
    resource        BLOB CHECK (length(resource) = 16),     -- the agent's key or the agent it blocked, when it is about one
    request_id      TEXT NOT NULL,
    detail          TEXT,                                   -- JSON object
    CHECK ((thread IS NULL) <> (agent IS NULL)),
    CHECK ((thread IS NULL) = (generation IS NULL) AND (thread IS NULL) = (state IS NULL))
) STRICT;

CREATE INDEX events_of_thread ON events (thread, generation) WHERE thread IS NOT NULL;

-- Who may read an event: the participants of its thread, or the agent that it concerns and the one who acted.
CREATE TABLE audience (
    agent           INTEGER NOT NULL REFERENCES agents,
    seq             INTEGER NOT NULL REFERENCES events,
    PRIMARY KEY (agent, seq)
) STRICT, WITHOUT ROWID;

-- Retries. The key is random, so a single index over all of them would touch a page of its own for each call;
-- days keep the part that grows small, and make it easy to forget what is older than a week.
CREATE TABLE idempotency (
    day             INTEGER NOT NULL,                       -- days since 1970
    key             BLOB NOT NULL CHECK (length(key) = 12), -- hash of the caller and its idempotency key
    payload         BLOB NOT NULL CHECK (length(payload) = 8),
    event           INTEGER NOT NULL REFERENCES events,     -- what the call did: its answer is read from there
    PRIMARY KEY (day, key)
) STRICT, WITHOUT ROWID;

-- Where a sender wants to be told what happens to a thread. The log is the outbox: a webhook knows up to where it was
-- told, and when to try the next.
CREATE TABLE webhooks (
    id              INTEGER PRIMARY KEY,
    thread          INTEGER NOT NULL REFERENCES threads,
    sender          INTEGER NOT NULL REFERENCES agents,     -- of the thread: nobody's webhooks delay another's
    name            TEXT NOT NULL,                          -- its id on the wire, among the thread's
    url             TEXT NOT NULL,
    token           TEXT,                                   -- secrets are kept, because they are sent; nobody reads them
    scheme          TEXT,
    credentials     TEXT,
    created_at      INTEGER NOT NULL,
    generation      INTEGER NOT NULL,                       -- told up to this change of the thread,
    told            INTEGER NOT NULL DEFAULT 0,             -- and so many updates of the one after it
    tries           INTEGER NOT NULL DEFAULT 0,             -- of the next update
    due_at          INTEGER,                                -- when to try; NULL: nothing to tell
    UNIQUE (thread, name)
) STRICT;

CREATE INDEX webhooks_due ON webhooks (sender, due_at) WHERE due_at IS NOT NULL;

-- Updates that were given up on. One leaves with its webhook.
CREATE TABLE dead_letters (
    id              INTEGER PRIMARY KEY,
    ulid            BLOB NOT NULL UNIQUE CHECK (length(ulid) = 16),
    webhook         INTEGER NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    generation      INTEGER NOT NULL,                       -- which change of the thread,
    position        INTEGER NOT NULL,                       -- and which of its updates
    tries           INTEGER NOT NULL,
    error           TEXT NOT NULL,                          -- of the last try
    died_at         INTEGER NOT NULL,
    due_at          INTEGER                                 -- an operator wants it tried once more
) STRICT;

CREATE INDEX dead_letters_of_webhook ON dead_letters (webhook);
CREATE INDEX dead_letters_due ON dead_letters (due_at) WHERE due_at IS NOT NULL;

INSERT INTO relay (id) VALUES (1);
