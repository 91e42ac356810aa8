//! A full disk: writes fail cleanly, reads go on, and writes do too as soon as there is room again.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentrelay::api::{self, Settings};
use agentrelay::relay::Relay;
use serde_json::json;
use tokio::net::TcpListener;

use crate::consistency;
use crate::storage::{agent_with_key, count, open, sqlite};
use crate::support::{Agent, Answer, message};

/// A file system of its own with room for so much. Taken away when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` where this user may not mount.
    fn of(size: &str) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(folder.path())
            .output();
        mounted.is_ok_and(|output| output.status.success()).then(|| SmallDisk(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills it to the last byte. The file that does is to be removed to have room again.
    fn fill(&self) -> PathBuf {
        let ballast = self.path().join("ballast");
        let mut file = std::fs::File::create(&ballast).expect("a file");
        for chunk in [vec![0; 4096], vec![0; 1]] {
            while file.write_all(&chunk).is_ok() {}
        }
        ballast
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_cleanly_and_everything_recovers_when_there_is_room() {
    let Some(disk) = SmallDisk::of("6m") else {
        println!("skipped: this user may not mount a file system");
        return;
    };
    let path = disk.path().join("relay.db");
    let relay = Relay::new(open(&path));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let settings = Settings { rate_limit: 0, ..Settings::default() };
    let served = tokio::spawn(api::serve(listener, relay.clone(), settings, async move { drop(stopped.await) }));
    let (bob, frank) =
        (agent_with_key(&relay, &url, "bob@acme").await, agent_with_key(&relay, &url, "frank@acme").await);
    let (read, unread) = (bob.hand_to(&frank, "read before").await, bob.hand_to(&frank, "not read yet").await);
    frank.get(&read).await;

    let ballast = disk.fill();
    let (mut sent, mut refused) = (2_usize, Vec::new());
    for number in 0..2_000 {
        let answer = send(&bob, number).await;
        if answer.status == 200 {
            sent += 1;
            continue;
        }
        assert_refused_cleanly(answer);
        refused.push(number);
        if refused.len() == 5 {
            break;
        }
    }
    assert_eq!(refused.len(), 5, "the disk never became full");

    // Many at once share commits; each of them is told the truth.
    let at_once: Vec<_> = (3_000..3_032)
        .map(|number| {
            let bob = bob.clone();
            tokio::spawn(async move { (number, send(&bob, number).await) })
        })
        .collect();
    for sending in at_once {
        let (number, answer) = sending.await.expect("no panic");
        if answer.status == 200 {
            sent += 1;
        } else {
            assert_refused_cleanly(answer);
            refused.push(number);
        }
    }
    assert_refused_cleanly(frank.step(&read, "accept").await);

    // Reading goes on.
    assert_eq!(frank.inbox().await.len(), sent.min(50));
    assert_eq!(frank.get(&read).await["status"], json!({ "state": "pending" }));
    assert_eq!(frank.rest("GET", "/healthz").await.status, 200);
    assert_eq!(frank.rest("GET", "/readyz").await.status, 503);
    assert_eq!(frank.rest("GET", "/agents/me").await.status, 200);
    // Also of what was never read before: the thread stays unread, because its read cursor cannot be written.
    let first_look = frank.rpc("tasks/get", json!({ "task_id": unread })).await;

    std::fs::remove_file(ballast).expect("room again");
    assert_eq!(frank.rest("GET", "/readyz").await.status, 200);
    for number in &refused {
        send(&bob, *number).await.result();
    }
    frank.step(&read, "accept").await.result();
    frank.get(&unread).await;
    let conn = sqlite(&path);
    consistency::check(&conn);
    let threads = i64::try_from(sent + refused.len()).expect("a number");
    assert_eq!(count(&conn, "SELECT count(*) FROM threads"), threads, "what was refused was not there");
    assert_eq!(count(&conn, "SELECT count(DISTINCT body) FROM messages"), threads);
    drop(conn);
    drop(stop);
    served.await.expect("no panic").expect("a clean stop");
    drop(relay);
    assert_eq!(first_look.result()["summary"], "not read yet");
}

/// A handoff of four kilobytes, by a name of its own.
async fn send(bob: &Agent, number: usize) -> Answer {
    let metadata = json!({ "client_idempotency_key": format!("handoff {number}") });
    let text = format!("{number} {}", "x".repeat(4_000));
    let params = json!({ "recipient": "frank@acme", "message": message(&text), "metadata": metadata });
    bob.rpc("message/send", params).await
}

#[track_caller]
fn assert_refused_cleanly(answer: Answer) {
    let error = answer.refused("internal").error();
    let told = error.to_string();
    assert!(!told.contains("disk") && !told.contains("SQL"), "the caller is told what it can act on: {told}");
}
