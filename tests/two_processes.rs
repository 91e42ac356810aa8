//! Two processes on one file: the operator's commands run while the relay serves. Neither fails because of the other, and
//! what a command did is there for the very next request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{Agent, RelayProcess, message};
use crate::{consistency, storage};

/// How many agents load the relay.
const SENDERS: usize = 16;
/// How often each command runs.
const ROUNDS: usize = 3;

/// A relay in a process of its own, under load until it is dropped.
struct Loaded {
    relay: RelayProcess,
    frank: Agent,
    stop: Arc<AtomicBool>,
    senders: JoinSet<()>,
    folder: tempfile::TempDir,
}

impl Loaded {
    async fn start() -> Loaded {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("relay.db");
        let prepared = agentrelay::relay::Relay::new(storage::open(&path));
        let frank = storage::agent_with_key(&prepared, "", "frank@acme").await;
        let mut agents = Vec::new();
        for number in 0..SENDERS {
            agents.push(storage::agent_with_key(&prepared, "", &format!("sender-{number}@acme")).await);
        }
        drop(prepared);

        let relay = RelayProcess::start(&path, &[]);
        let frank = Agent { url: relay.url.clone(), ..frank };
        let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut senders = JoinSet::new();
        for agent in agents {
            let agent = Agent { url: relay.url.clone(), ..agent };
            senders.spawn(load(agent, stop.clone(), calls.clone()));
        }
        // Nothing is tried before everybody is at work.
        while calls.load(Ordering::SeqCst) < 2 * SENDERS {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            assert!(senders.try_join_next().is_none(), "a sender gave up");
        }
        Loaded { relay, frank, stop, senders, folder }
    }

    /// Runs an operator's command, which must succeed; gives what it printed.
    fn operate(&self, arguments: &[&str]) -> String {
        tokio::task::block_in_place(|| self.relay.operate(arguments))
    }

    /// The same, as a document.
    fn ask(&self, arguments: &[&str]) -> Value {
        let printed = self.operate(&[arguments, &["--output", "json"]].concat());
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {printed}"))
    }

    fn agent(&self, handle: &str, key: &str) -> Agent {
        Agent { handle: handle.to_owned(), key: key.to_owned(), ..self.frank.clone() }
    }

    /// Ends the load; no request of it has failed.
    async fn finish(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(sender) = self.senders.join_next().await {
            sender.expect("no request failed");
        }
        let conn = rusqlite::Connection::open(&self.relay.data_file).expect("the file");
        conn.busy_timeout(std::time::Duration::from_secs(10)).expect("a timeout");
        consistency::check(&conn);
        let log = self.relay.log();
        assert!(!log.contains("ERROR") && !log.contains("\"level\":\"error\""), "{log}");
    }
}

/// What an agent does all day: hands over, talks, looks.
async fn load(agent: Agent, stop: Arc<AtomicBool>, calls: Arc<AtomicUsize>) {
    while !stop.load(Ordering::SeqCst) {
        let sent =
            agent.rpc("message/send", json!({ "recipient": "frank@acme", "message": message("a handoff") })).await;
        let task = sent.result()["task_id"].as_str().expect("an id").to_owned();
        agent.say(&task, "a message").await.result();
        agent.rpc("tasks/list", json!({ "filter": { "role": "sender" } })).await.result();
        agent.get(&task).await;
        calls.fetch_add(4, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_agents_key_works_at_once_and_a_revoked_key_no_more() {
    let loaded = Loaded::start().await;
    for round in 0..ROUNDS {
        let handle = format!("new-{round}@acme");
        let key = loaded.operate(&["agent", "create", &handle]);
        let first = loaded.agent(&handle, &key);
        assert_eq!(first.rest("GET", "/agents/me").await.json()["handle"], *handle);
        first.hand_to(&loaded.frank, "hello").await;

        let minted = loaded.ask(&["key", "mint", "--as", &handle, "--label", "second"]);
        let second = loaded.agent(&handle, minted["api_key"].as_str().expect("a key"));
        assert_eq!(second.rest("GET", "/agents/me").await.status, 200);
        loaded.operate(&["key", "revoke", minted["key_id"].as_str().expect("an id")]);
        second.rpc("tasks/list", json!({})).await.refused("unauthenticated");
        assert_eq!(first.rest("GET", "/agents/me").await.status, 200, "the other key stays");

        let third = loaded.agent(&handle, &loaded.operate(&["key", "rotate", "--as", &handle]));
        first.rpc("tasks/list", json!({})).await.refused("unauthenticated");
        third.rpc("tasks/list", json!({})).await.result();
        let listed = loaded.ask(&["key", "list", "--as", &handle]);
        let statuses: Vec<_> =
            listed["keys"].as_array().expect("keys").iter().map(|key| key["status"].clone()).collect();
        assert_eq!(statuses, ["revoked", "revoked", "active"]);
    }
    loaded.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_and_its_end_are_felt_by_the_next_call() {
    let loaded = Loaded::start().await;
    let key = loaded.operate(&["agent", "create", "mallory@acme"]);
    let mallory = loaded.agent("mallory@acme", &key);
    let task = mallory.hand_to(&loaded.frank, "before").await;
    for _ in 0..ROUNDS {
        loaded.operate(&["block", "mallory@acme", "--as", "frank@acme"]);
        mallory.say(&task, "still there?").await.refused("teammate_blocked");
        let params = json!({ "recipient": "frank@acme", "message": message("hello?") });
        mallory.rpc("message/send", params).await.refused("teammate_blocked");
        let blocked = loaded.ask(&["blocks", "--as", "frank@acme"]);
        assert_eq!(blocked["blocked"].as_array().expect("a list").len(), 1);
        assert_eq!(loaded.frank.rest("GET", "/agents/me/block").await.json()["blocked"][0]["handle"], "mallory@acme");

        loaded.operate(&["unblock", "mallory@acme", "--as", "frank@acme"]);
        mallory.say(&task, "here I am").await.result();
    }
    loaded.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_renamed_disabled_and_enabled_between_two_calls() {
    let loaded = Loaded::start().await;
    let key = loaded.operate(&["agent", "create", "eve@acme"]);
    let eve = loaded.agent("eve@acme", &key);
    for round in 0..ROUNDS {
        let handle = format!("eve-{round}@acme");
        let current = eve.rest("GET", "/agents/me").await.json()["handle"].as_str().expect("a handle").to_owned();
        loaded.operate(&["agent", "rename", &current, &handle]);
        assert_eq!(eve.rest("GET", "/agents/me").await.json()["handle"], *handle);
        loaded.operate(&["agent", "disable", &handle]);
        eve.rpc("tasks/list", json!({})).await.refused("forbidden");
        let params = json!({ "recipient": handle, "message": message("hello?") });
        loaded.frank.rpc("message/send", params.clone()).await.refused("recipient_not_found");
        loaded.operate(&["agent", "enable", &handle]);
        loaded.frank.rpc("message/send", params).await.result();
        assert_eq!(eve.inbox().await.len(), round + 1);
    }
    loaded.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_and_lists_are_made_while_everybody_writes() {
    let loaded = Loaded::start().await;
    let mut threads = Vec::new();
    for round in 0..ROUNDS {
        let file = loaded.folder.path().join(format!("backup-{round}.db"));
        let told = loaded.ask(&["backup", &file.display().to_string()]);
        assert_eq!(told["verified"], true);
        let copy = rusqlite::Connection::open(&file).expect("the backup");
        consistency::check(&copy);
        threads.push(copy.query_row("SELECT count(*) FROM threads", [], |row| row.get::<_, i64>(0)).expect("a number"));

        let agents = loaded.ask(&["agent", "list"]);
        assert_eq!(agents["agents"].as_array().expect("agents").len(), SENDERS + 1, "{agents}");
        assert_eq!(loaded.ask(&["key", "list"])["keys"].as_array().expect("keys").len(), SENDERS + 1);
        assert!(!loaded.ask(&["audit"])["events"].as_array().expect("events").is_empty());
    }
    assert!(threads.is_sorted_by(|earlier, later| earlier < later), "the senders went on meanwhile: {threads:?}");
    loaded.finish().await;
}
