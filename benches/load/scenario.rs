//! What is measured: one kind of call each, and the preparation that it needs.

use std::fmt;
use std::time::Duration;

use futures_util::future::try_join_all;
use serde::Serialize;

use crate::bodies;
use crate::cast::Agent;
use crate::drive::Connection;
use crate::handoffs;
use crate::http::Request;
use crate::script::Script;
use crate::stage::Stage;
use crate::{Result, grpc, http};

/// One kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scenario {
    /// `message/send` of new handoffs, each with a fresh idempotency key
    Create,
    /// `message/send` into threads of the same connection
    Append,
    /// `tasks/get` of threads with 20 messages, read before, so that no read cursor moves
    Get,
    /// `tasks/list` of an inbox's first 50 threads in any state
    List,
    /// `tasks/update`: accept and complete a handoff, two calls
    AcceptComplete,
    /// A2A's `SendMessage` over JSON-RPC: what [`Scenario::Create`] does, with the same text and as many keys
    A2aSendJsonRpc,
    /// The same over HTTP+JSON
    A2aSendHttpJson,
    /// The same over gRPC
    A2aSendGrpc,
}

/// The ways to send a handoff, to be compared with the first of them.
pub(crate) const SENDS: [Scenario; 4] =
    [Scenario::Create, Scenario::A2aSendJsonRpc, Scenario::A2aSendHttpJson, Scenario::A2aSendGrpc];

/// Messages in a thread that `get` reads.
pub(crate) const LONG_THREAD_MESSAGES: usize = 20;

impl Scenario {
    /// Whether the calls change what later calls find, so that each round needs a file of its own.
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Scenario::Get | Scenario::List)
    }

    /// Whether it is a way to send that is compared with [`Scenario::Create`].
    pub(crate) fn is_a2a_send(self) -> bool {
        matches!(self, Scenario::A2aSendJsonRpc | Scenario::A2aSendHttpJson | Scenario::A2aSendGrpc)
    }

    /// Opens the connection of this number.
    pub(crate) async fn connect(self, stage: &Stage, connection: usize) -> Result<Connection> {
        Ok(match self {
            Scenario::A2aSendGrpc => {
                let key = &stage.cast.sender(connection).key;
                Connection::Grpc(Box::new(grpc::Connection::open(stage.address, key, "SendMessage").await?))
            }
            _ => Connection::Http(http::Connection::open(stage.address).await?),
        })
    }

    /// Brings the stage into the state that the scenario begins with, and writes each connection's script for a round
    /// of this length.
    pub(crate) async fn scripts(self, stage: &Stage, connections: usize, time: Duration) -> Result<Vec<Script>> {
        let script = |connection| self.script(stage, connection, connections, time);
        try_join_all((0..connections).map(script)).await
    }

    async fn script(self, stage: &Stage, connection: usize, connections: usize, time: Duration) -> Result<Script> {
        /// Threads that a connection appends to, one after the other.
        const APPENDED_THREADS: usize = 50;
        /// Handoffs that a second of accepting and completing hardly uses up: over all connections, and on one.
        const ACCEPTED_PER_S: f64 = 8_000.0;
        const ACCEPTED_PER_S_ON_ONE: f64 = 1_500.0;

        let request = |agent: &Agent, body: String| Request::post(stage.address, &agent.key, &body);
        let sender = stage.cast.sender(connection);
        let recipient = stage.cast.recipients(connection).next().ok_or("a cast of one")?;
        let to_everybody = |request: &dyn Fn(&Agent) -> Request| {
            Script::of(connection, stage.cast.recipients(connection).map(request).collect())
        };
        let (address, key) = (stage.address, &sender.key);
        Ok(match self {
            Scenario::Create => to_everybody(&|agent| request(sender, bodies::create(&agent.handle))),
            Scenario::A2aSendJsonRpc => {
                to_everybody(&|agent| Request::a2a_json_rpc(address, &agent.handle, key, &bodies::a2a_json_rpc()))
            }
            Scenario::A2aSendHttpJson => {
                to_everybody(&|agent| Request::a2a_http_json(address, &agent.handle, key, &bodies::a2a_http_json()))
            }
            Scenario::A2aSendGrpc => to_everybody(&|agent| Request::grpc(&bodies::a2a_grpc(&agent.handle))),
            Scenario::Append => {
                let threads = handoffs::create(stage, sender, recipient, connection, APPENDED_THREADS).await?;
                Script::about(connection, vec![request(sender, bodies::append())], threads)
            }
            Scenario::Get => {
                let (reader, mut threads) = handoffs::long_threads(stage, connection).await?;
                // The readers of one inbox begin at different places in it.
                let threads_len = threads.len().max(1);
                threads.rotate_left(threads_len * connection / connections % threads_len);
                Script::about(connection, vec![request(reader, bodies::get())], threads)
            }
            Scenario::List => {
                let agents = &stage.cast.agents;
                let turns = agents.iter().map(|agent| request(agent, bodies::list()));
                let mut turns: Vec<Request> = turns.collect();
                turns.rotate_left(connection % agents.len());
                Script::of(connection, turns)
            }
            Scenario::AcceptComplete => {
                let connections = u32::try_from(connections)?;
                let per_s = (ACCEPTED_PER_S / f64::from(connections)).min(ACCEPTED_PER_S_ON_ONE);
                let count = usize::try_from(time.mul_f64(per_s).as_secs())?;
                let threads = handoffs::create(stage, sender, recipient, connection, count).await?;
                let turns = vec![request(recipient, bodies::accept()), request(recipient, bodies::complete())];
                let script = Script::about(connection, turns, threads);
                // The ceiling accepts the same handoff again and again.
                if stage.is_ceiling() { script } else { script.once() }
            }
        })
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scenario::Create => "create",
            Scenario::Append => "append",
            Scenario::Get => "get",
            Scenario::List => "list",
            Scenario::AcceptComplete => "accept and complete",
            Scenario::A2aSendJsonRpc => "A2A send over JSON-RPC",
            Scenario::A2aSendHttpJson => "A2A send over HTTP+JSON",
            Scenario::A2aSendGrpc => "A2A send over gRPC",
        })
    }
}
