//! The calls that prepare a scenario. They are not measured, so they may be written for the reader.

use serde_json::Value;

use crate::Result;
use crate::bodies;
use crate::cast::Agent;
use crate::http::{Connection, Request, ThreadId};
use crate::scenario::LONG_THREAD_MESSAGES;
use crate::script::Script;
use crate::stage::Stage;

/// Sends new handoffs and answers their ids.
pub(crate) async fn create(
    stage: &Stage,
    sender: &Agent,
    recipient: &Agent,
    connection: usize,
    count: usize,
) -> Result<Vec<ThreadId>> {
    if stage.is_ceiling() {
        return Ok(vec![MADE_UP]);
    }
    let mut line = Connection::open(stage.address).await?;
    let request = Request::post(stage.address, &sender.key, &bodies::create(&recipient.handle));
    let mut script = Script::of(connection, vec![request]);
    let mut threads = Vec::with_capacity(count);
    for _ in 0..count {
        let request = script.next().ok_or("the script has ended")?;
        let result = ask(&mut line, request).await?;
        threads.push(thread_id(&result)?);
    }
    Ok(threads)
}

/// The threads with many messages that this connection reads, and who may read them.
pub(crate) async fn long_threads(stage: &Stage, connection: usize) -> Result<(&Agent, Vec<ThreadId>)> {
    if stage.is_ceiling() {
        return Ok((stage.cast.sender(connection), vec![MADE_UP]));
    }
    let readers = &stage.cast.readers;
    if readers.is_empty() {
        return make_long_threads(stage, connection).await;
    }
    let reader = &readers[connection % readers.len()];
    Ok((reader, inbox(stage, reader).await?))
}

/// Stands for the id of a thread where nobody looks at it.
const MADE_UP: ThreadId = ThreadId::new(*b"01HXYZ4K2VNJQP7R8MWDB3CSTF");

/// On a relay that we did not seed: a few threads made for the purpose.
async fn make_long_threads(stage: &Stage, connection: usize) -> Result<(&Agent, Vec<ThreadId>)> {
    const THREADS_PER_CONNECTION: usize = 10;

    let sender = stage.cast.sender(connection);
    let recipient = stage.cast.recipients(connection).next().ok_or("a cast of one")?;
    let threads = create(stage, sender, recipient, connection, THREADS_PER_CONNECTION).await?;
    let mut line = Connection::open(stage.address).await?;
    let request = Request::post(stage.address, &sender.key, &bodies::append());
    let mut script = Script::about(connection, vec![request], threads.clone());
    for _ in 0..THREADS_PER_CONNECTION * (LONG_THREAD_MESSAGES - 1) {
        let request = script.next().ok_or("the script has ended")?;
        ask(&mut line, request).await?;
    }
    Ok((recipient, threads))
}

/// Walks through the whole inbox.
async fn inbox(stage: &Stage, agent: &Agent) -> Result<Vec<ThreadId>> {
    let mut line = Connection::open(stage.address).await?;
    let mut threads = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let body = bodies::list_200(cursor.as_deref());
        let page = ask(&mut line, &Request::post(stage.address, &agent.key, &body)).await?;
        for thread in page["items"].as_array().ok_or("a list without items")? {
            threads.push(thread_id(thread)?);
        }
        match &page["next_cursor"] {
            Value::String(next) => cursor = Some(next.clone()),
            _ => return Ok(threads),
        }
    }
}

/// Calls and takes the result out of its envelope.
pub(crate) async fn ask(line: &mut Connection, request: &Request) -> Result<Value> {
    let reply = line.call(request).await?;
    if !reply.is_success() {
        return Err(format!("preparing failed: {reply}").into());
    }
    let mut envelope: Value = serde_json::from_slice(reply.body)?;
    Ok(envelope["result"].take())
}

fn thread_id(thread: &Value) -> Result<ThreadId> {
    let id = thread["task_id"].as_str().and_then(ThreadId::parse);
    Ok(id.ok_or("an answer without a task_id")?)
}
