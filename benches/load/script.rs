//! What one connection says: some requests in turn, each about the next of some threads.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::http::{Request, ThreadId};

/// An endless or finite sequence of requests, made without allocating.
pub(crate) struct Script {
    /// Said one after the other, again and again.
    turns: Vec<Request>,
    /// Each is the subject of one pass through the turns.
    threads: Vec<ThreadId>,
    /// Whether the first thread follows the last; otherwise the script ends.
    repeats: bool,
    said: u64,
    connection: usize,
    nonce: u64,
}

impl Script {
    /// Requests that name no thread.
    pub(crate) fn of(connection: usize, turns: Vec<Request>) -> Script {
        Script::about(connection, turns, Vec::new())
    }

    /// Requests about these threads, from the first to the last and then from the first again.
    pub(crate) fn about(connection: usize, turns: Vec<Request>, threads: Vec<ThreadId>) -> Script {
        Script { turns, threads, repeats: true, said: 0, connection, nonce: nonce() }
    }

    /// Ends after the last thread.
    pub(crate) fn once(mut self) -> Script {
        self.repeats = false;
        self
    }

    /// The next request; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<&Request> {
        let number = usize::try_from(self.said).ok()?;
        let (pass, turn) = (number / self.turns.len(), number % self.turns.len());
        let request = &mut self.turns[turn];
        if request.takes_thread() {
            let mut position = pass;
            if self.repeats {
                position %= self.threads.len().max(1);
            }
            request.set_thread(*self.threads.get(position)?);
        }
        request.set_idempotency_key(self.nonce, self.connection, self.said);
        self.said += 1;
        Some(request)
    }
}

/// Keeps the idempotency keys of different runs on the same file apart.
fn nonce() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Nanoseconds fit into 64 bits for some centuries; if not, the low bits are as good.
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}
