//! The data file, as DESIGN 5 describes it.

mod backup;
mod disk;
mod file;
mod ids;
mod log;
mod plans;
mod retries;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use agentrelay::domain::agent::{Handle, NewAgent};
use agentrelay::domain::key::KeyOptions;
use agentrelay::domain::time::{Clock, Timestamp};
use agentrelay::relay::{Actor, Caller, Relay};
use agentrelay::store::{Store, StoreOptions};

use crate::operations;
use crate::support::Agent;

/// Opens a data file, which may still have to be created.
pub fn open(path: &Path) -> Store {
    Store::open(path, StoreOptions::default()).expect("a data file")
}

/// A clock that says what it was told.
#[derive(Clone)]
struct SetClock(Arc<AtomicI64>);

impl SetClock {
    fn at(ms: i64) -> SetClock {
        SetClock(Arc::new(AtomicI64::new(ms)))
    }

    fn set(&self, ms: i64) {
        self.0.store(ms, Ordering::SeqCst);
    }

    /// A relay on this file, whose operations happen when the clock says.
    fn relay(&self, path: &Path) -> Relay {
        let now = self.0.clone();
        let clock = Clock::new(move || Timestamp::from_ms(now.load(Ordering::SeqCst)));
        Relay::new(Store::open(path, StoreOptions { clock, ..StoreOptions::default() }).expect("a data file"))
    }
}

/// A new agent with a key, ready to call.
pub async fn agent(relay: &Relay, handle: &str) -> Caller {
    let agent = agent_with_key(relay, "", handle).await;
    operations::caller(relay, &agent)
}

/// A new agent with a key, and its person's verbs at `url`.
pub async fn agent_with_key(relay: &Relay, url: &str, handle: &str) -> Agent {
    let new = NewAgent::with_handle(Handle::parse(handle).expect("a handle"));
    let created = relay.create_agent(Actor::operator("req_storage"), new, KeyOptions::default()).await;
    let (agent, minted) = created.expect("an agent");
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let key = minted.key.reveal().to_owned();
    Agent { handle: handle.to_owned(), id: agent.id.to_string(), key, url: url.to_owned(), http }
}

/// A second connection to the file, as another program would open it.
fn sqlite(path: &Path) -> rusqlite::Connection {
    let conn = rusqlite::Connection::open(path).expect("the data file");
    conn.busy_timeout(std::time::Duration::from_secs(10)).expect("a timeout");
    conn
}

fn count(conn: &rusqlite::Connection, sql: &str) -> i64 {
    conn.query_row(sql, [], |row| row.get(0)).expect("a number")
}
