//! The client's gRPC: HTTP/2 without TLS, one connection, one call at a time.
//!
//! Bare `h2`, because a gRPC library would spend as much on a call as the relay does. A connection has no task of its own:
//! whoever calls also moves its frames, so that an answer wakes one task and not two.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::Poll;

use axum::http::{HeaderMap, Request as HttpRequest, header};
use bytes::Bytes;
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use prost::Message;
use tokio::net::TcpStream;

use crate::http::{Request, malformed};

/// Begins each message of a stream: whether it is compressed, and its length.
const PREFIX_LEN: usize = 5;

/// A connection on which one agent calls one method.
pub(crate) struct Connection {
    sender: SendRequest<Bytes>,
    frames: Frames,
    head: HttpRequest<()>,
}

type Frames = h2::client::Connection<TcpStream, Bytes>;

impl Connection {
    /// Connects.
    pub(crate) async fn open(address: SocketAddr, key: &str, method: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, frames) = h2::client::handshake(stream).await.map_err(broken)?;
        let head = HttpRequest::post(format!("http://{address}/lf.a2a.v1.A2AService/{method}"))
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .header(header::AUTHORIZATION, format!("Bearer {key}"))
            .header("a2a-version", "1.0")
            .body(())
            .map_err(io::Error::other)?;
        Ok(Connection { sender, frames, head })
    }

    /// Calls and waits for the whole answer; tells how the call was refused if it was.
    pub(crate) async fn call(&mut self, request: &Request) -> io::Result<Result<(), String>> {
        let (sender, head) = (&mut self.sender, &self.head);
        moving(&mut self.frames, async {
            let (head, mut body) = send(sender, head, request).await?.await?.into_parts();
            let mut received = 0;
            while let Some(data) = body.data().await {
                received += take(&mut body, &data?)?;
            }
            // An answer that is an error at once has no trailers of its own.
            let trailers = body.trailers().await?.unwrap_or(head.headers);
            let is_success = trailers.get("grpc-status").is_some_and(|status| status == "0") && received > PREFIX_LEN;
            Ok(if is_success { Ok(()) } else { Err(refusal(&trailers)) })
        })
        .await
    }

    /// Calls and gives the stream of answers.
    pub(crate) async fn stream(mut self, request: &Request) -> io::Result<Messages> {
        let (sender, head) = (&mut self.sender, &self.head);
        let response = moving(&mut self.frames, async { send(sender, head, request).await?.await }).await?;
        if let Some(status) = response.headers().get("grpc-status") {
            return Err(io::Error::other(format!("a stream was refused: grpc-status {status:?}")));
        }
        Ok(Messages { body: response.into_body(), frames: self.frames, received: Vec::new(), _sender: self.sender })
    }
}

/// A stream of answers.
pub(crate) struct Messages {
    body: RecvStream,
    frames: Frames,
    received: Vec<u8>,
    /// A connection ends when nobody can call on it.
    _sender: SendRequest<Bytes>,
}

impl Messages {
    /// The next message. The end of the stream is an error.
    pub(crate) async fn next<M: Message + Default>(&mut self) -> io::Result<M> {
        loop {
            if let Some(message) = self.first()? {
                return Ok(message);
            }
            let body = &mut self.body;
            let data = moving(&mut self.frames, async {
                let data = body.data().await.transpose()?;
                data.map(|data| take(body, &data).map(|_| data)).transpose()
            });
            let data = data.await?.ok_or_else(|| malformed("a stream has ended"))?;
            self.received.extend_from_slice(&data);
        }
    }

    /// The first message, if all of it is here.
    fn first<M: Message + Default>(&mut self) -> io::Result<Option<M>> {
        let Some((prefix, rest)) = self.received.split_first_chunk::<PREFIX_LEN>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let Some(message) = rest.get(..length) else {
            return Ok(None);
        };
        let message = M::decode(message).map_err(io::Error::other)?;
        self.received.drain(..PREFIX_LEN + length);
        Ok(Some(message))
    }
}

async fn send(
    sender: &mut SendRequest<Bytes>,
    head: &HttpRequest<()>,
    request: &Request,
) -> Result<ResponseFuture, h2::Error> {
    poll_fn(|context| sender.poll_ready(context)).await?;
    let (response, mut body) = sender.send_request(head.clone(), false)?;
    body.send_data(Bytes::copy_from_slice(request.bytes()), true)?;
    Ok(response)
}

/// Lets the server send as much again.
fn take(body: &mut RecvStream, data: &Bytes) -> Result<usize, h2::Error> {
    body.flow_control().release_capacity(data.len())?;
    Ok(data.len())
}

/// Does something on a connection while moving its frames.
async fn moving<T>(frames: &mut Frames, action: impl Future<Output = Result<T, h2::Error>>) -> io::Result<T> {
    let mut action = pin!(action);
    poll_fn(|context| {
        if let Poll::Ready(done) = action.as_mut().poll(context) {
            return Poll::Ready(done.map_err(broken));
        }
        if let Poll::Ready(ended) = Pin::new(&mut *frames).poll(context) {
            let error = ended.map_or_else(broken, |()| malformed("the server closed the connection"));
            return Poll::Ready(Err(error));
        }
        // Once more at once: what the frames brought would otherwise wait for the next turn.
        action.as_mut().poll(context).map_err(broken)
    })
    .await
}

fn refusal(trailers: &HeaderMap) -> String {
    let text = |name| trailers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    format!("grpc-status {:?}: {:?}", text("grpc-status"), text("grpc-message"))
}

fn broken(error: h2::Error) -> io::Error {
    io::Error::other(error)
}
