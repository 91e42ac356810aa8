//! A task that somebody follows: the task first, then each update, until it has ended (A2A v1.0.1, section 3.1.6).
//!
//! Each update has an id from which a client that was cut off goes on. It gets the task as it was then, and every update
//! since, each once.

use std::collections::VecDeque;

use tokio::sync::watch;

use crate::api::a2a::Door;
use crate::api::a2a::error::Failure;
use crate::api::a2a::translate::{self, Detail, Names};
use crate::api::a2a::wire::StreamResponse;
use crate::domain::thread::ThreadView;
use crate::error::Error;
use crate::relay::watch::Watcher;

/// A place in a task's updates: after the change `generation` of its thread, and after `told` updates of the change after
/// that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resume {
    pub(super) generation: i64,
    pub(super) told: usize,
}

impl Resume {
    /// From the id of an update.
    pub(super) fn from_id(id: &str) -> Option<Resume> {
        let (generation, told) = id.split_once('.')?;
        let generation = generation.parse().ok().filter(|generation| *generation >= 1)?;
        Some(Resume { generation, told: told.parse().ok()? })
    }

    /// The id of the update that leads here.
    pub(super) fn id(self) -> String {
        format!("{}.{}", self.generation, self.told)
    }
}

/// One element of a stream.
pub(super) enum Element {
    /// The task or an update, and the place after it.
    Response(StreamResponse, Resume),
    /// The last one: the stream was cut, and this is why. Whoever reads on subscribes again.
    Cut(Failure),
}

/// A task that is followed.
pub(super) struct TaskStream {
    watcher: Watcher,
    names: Names,
    stopping: watch::Receiver<bool>,
    waiting: VecDeque<Element>,
    /// How many updates of the next change the client knows.
    told: usize,
    ended: bool,
}

impl TaskStream {
    /// Follows a task that stands as `view` has it. `told` updates of the next change are known already.
    pub(super) fn new(door: &Door, view: ThreadView, watcher: Watcher, detail: Detail, told: usize) -> TaskStream {
        let names = Names::of(&view);
        let place = Resume { generation: view.thread.generation, told };
        let ended = view.thread.state.is_terminal();
        let task = StreamResponse::Task(Box::new(door.task(view, detail)));
        let waiting = VecDeque::from([Element::Response(task, place)]);
        TaskStream { watcher, names, stopping: door.app.stopping.clone(), waiting, told, ended }
    }

    /// The next element; `None` after the last one. May be dropped at any moment without losing any.
    pub(super) async fn next(&mut self) -> Option<Element> {
        if self.waiting.is_empty() && !self.ended {
            self.wait().await;
        }
        self.waiting.pop_front()
    }

    async fn wait(&mut self) {
        let changes = tokio::select! {
            biased;
            changes = self.watcher.next() => changes,
            _ = self.stopping.wait_for(|stopping| *stopping) => Err(Error::stopping()),
        };
        let changes = match changes {
            Ok(changes) => changes,
            Err(error) => {
                self.ended = true;
                self.waiting.push_back(Element::Cut(error.into()));
                return;
            }
        };
        for change in changes {
            let (generation, ends) = (change.generation, change.state.is_terminal());
            let updates = translate::updates(&self.names, change);
            let count = updates.len();
            let known = std::mem::take(&mut self.told);
            for (index, update) in updates.into_iter().enumerate().skip(known) {
                let told = index + 1;
                let whole = told == count;
                let place =
                    if whole { Resume { generation, told: 0 } } else { Resume { generation: generation - 1, told } };
                self.waiting.push_back(Element::Response(update, place));
            }
            self.ended = ends;
        }
    }
}
