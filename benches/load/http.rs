//! The client's HTTP/1.1: one keep-alive connection, one call at a time, no allocation per call.
//!
//! Client and server share the machine's cores, so whatever the client spends is missing from the figures. A request
//! is a block of bytes made before the clock starts, into which only ids are written; a reply is read into one buffer
//! and looked at just closely enough to know whether it succeeded.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request whose ids are overwritten in place. A placeholder is as long as what replaces it, so no length ever changes.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    bytes: Vec<u8>,
    thread_at: Option<usize>,
    idempotency_key_at: Option<usize>,
    /// What a reply's body has near its start when the call did what it asked for.
    success: &'static [u8],
}

impl Request {
    /// Stands in a body where a thread's id (a ULID) belongs.
    pub(crate) const THREAD: &str = "TTTTTTTTTTTTTTTTTTTTTTTTTT";
    /// Stands in a body where a fresh idempotency key belongs. As long as a UUID, which is what clients use.
    pub(crate) const IDEMPOTENCY_KEY: &str = "KKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKK";

    /// A call of `POST /a2a`. `body` may hold each placeholder once.
    pub(crate) fn post(host: SocketAddr, key: &str, body: &str) -> Request {
        let head = format!(
            "POST /a2a HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Request::new([head.as_bytes(), body.as_bytes()].concat(), br#""result":"#)
    }

    /// A call of A2A's JSON-RPC binding at this agent's door.
    pub(crate) fn a2a_json_rpc(host: SocketAddr, handle: &str, key: &str, body: &str) -> Request {
        Request::new(post_a2a(host, handle, key, body), br#""result":"#)
    }

    /// A call of A2A's HTTP+JSON binding at this agent's door that sends a message, and is answered with the task.
    pub(crate) fn a2a_http_json(host: SocketAddr, handle: &str, key: &str, body: &str) -> Request {
        Request::new(post_a2a(host, &format!("{handle}/message:send"), key, body), br#""task":"#)
    }

    /// A gRPC message, as a connection of [`crate::grpc`] sends it.
    pub(crate) fn grpc(message: &impl prost::Message) -> Request {
        // Not compressed, and the length.
        let mut bytes = vec![0; 5];
        // Infallible: a vector grows.
        let _ = message.encode(&mut bytes);
        let length = u32::try_from(bytes.len() - 5).unwrap_or(u32::MAX);
        bytes[1..5].copy_from_slice(&length.to_be_bytes());
        Request::new(bytes, b"")
    }

    fn new(bytes: Vec<u8>, success: &'static [u8]) -> Request {
        let place =
            |placeholder: &str| bytes.windows(placeholder.len()).position(|window| window == placeholder.as_bytes());
        Request {
            thread_at: place(Request::THREAD),
            idempotency_key_at: place(Request::IDEMPOTENCY_KEY),
            bytes,
            success,
        }
    }

    /// A plain `GET`, with a key or without.
    pub(crate) fn get(host: SocketAddr, path: &str, key: Option<&str>) -> Request {
        let authorization = key.map_or_else(String::new, |key| format!("authorization: Bearer {key}\r\n"));
        let bytes = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\na2a-version: 1.0\r\n{authorization}\r\n");
        Request { bytes: bytes.into_bytes(), thread_at: None, idempotency_key_at: None, success: b"" }
    }

    /// All of it, as it is sent.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the request names a thread.
    pub(crate) fn takes_thread(&self) -> bool {
        self.thread_at.is_some()
    }

    /// Names the thread. Without the placeholder nothing happens.
    pub(crate) fn set_thread(&mut self, id: ThreadId) {
        if let Some(at) = self.thread_at {
            self.bytes[at..at + id.0.len()].copy_from_slice(&id.0);
        }
    }

    /// Makes the idempotency key that of the `number`th call of connection `connection` in the run `nonce`.
    pub(crate) fn set_idempotency_key(&mut self, nonce: u64, connection: usize, number: u64) {
        if let Some(at) = self.idempotency_key_at {
            let mut place = &mut self.bytes[at..at + Request::IDEMPOTENCY_KEY.len()];
            // Infallible: a slice takes what fits, and these are exactly 36 characters.
            let _ = io::Write::write_fmt(&mut place, format_args!("{nonce:016x}-{connection:04x}-{number:014x}"));
        }
    }
}

/// A thread's id as it travels: the 26 characters of a ULID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadId([u8; Request::THREAD.len()]);

impl ThreadId {
    pub(crate) const fn new(text: [u8; Request::THREAD.len()]) -> ThreadId {
        ThreadId(text)
    }

    /// The text.
    pub(crate) fn text(&self) -> &str {
        // Ids come from text.
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Takes the id from its text.
    pub(crate) fn parse(text: &str) -> Option<ThreadId> {
        text.as_bytes().try_into().ok().map(ThreadId)
    }
}

/// A connection that stays open.
pub(crate) struct Connection {
    stream: TcpStream,
    /// Holds the reply of the current call; what is beyond `filled` is left from earlier ones.
    buffer: Vec<u8>,
    filled: usize,
}

/// What came back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
    success: &'static [u8],
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: vec![0; 16 * 1024], filled: 0 })
    }

    /// Sends the request and waits for the whole reply.
    pub(crate) async fn call(&mut self, request: &Request) -> io::Result<Reply<'_>> {
        let head = self.ask(request).await?;
        let length = head.content_length.ok_or_else(|| malformed("the reply has no content-length"))?;
        let end = head.len + length;
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        while self.filled < end {
            self.read_some().await?;
        }
        Ok(Reply { status: head.status, body: &self.buffer[head.len..end], success: request.success })
    }

    /// Sends the request and gives the socket away after the head of a good reply, with what was read beyond it: the
    /// reply is a stream.
    pub(crate) async fn stream(mut self, request: &Request) -> io::Result<(TcpStream, Vec<u8>)> {
        let head = self.ask(request).await?;
        if head.status != 200 {
            return Err(malformed("a stream was refused"));
        }
        self.buffer.truncate(self.filled);
        Ok((self.stream, self.buffer.split_off(head.len)))
    }

    async fn ask(&mut self, request: &Request) -> io::Result<Head> {
        self.stream.write_all(&request.bytes).await?;
        self.filled = 0;
        loop {
            self.read_some().await?;
            if let Some(head) = Head::parse(&self.buffer[..self.filled])? {
                return Ok(head);
            }
        }
    }

    async fn read_some(&mut self) -> io::Result<()> {
        if self.filled == self.buffer.len() {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        match self.stream.read(&mut self.buffer[self.filled..]).await? {
            0 => Err(malformed("the server closed the connection")),
            count => {
                self.filled += count;
                Ok(())
            }
        }
    }
}

impl Reply<'_> {
    /// Whether the call did what it asked for: HTTP 200 and what its protocol calls a result.
    pub(crate) fn is_success(&self) -> bool {
        // Servers write the envelope first, so its `result` is near the start and the large rest need not be searched.
        const ENVELOPE_MAX: usize = 128;

        let start = &self.body[..self.body.len().min(ENVELOPE_MAX)];
        self.status == 200 && start.windows(self.success.len().max(1)).any(|window| window == self.success)
    }
}

/// The status and the beginning of the body, for error messages.
impl fmt::Display for Reply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 400;

        let shown = &self.body[..self.body.len().min(SHOWN_MAX)];
        write!(f, "HTTP {}: {}", self.status, String::from_utf8_lossy(shown))
    }
}

/// The part of a reply's head that matters here.
struct Head {
    status: u16,
    /// With the empty line that ends it.
    len: usize,
    /// Absent when the reply is a stream.
    content_length: Option<usize>,
}

impl Head {
    /// `None` while the head is not complete.
    fn parse(bytes: &[u8]) -> io::Result<Option<Head>> {
        const END: &[u8] = b"\r\n\r\n";

        let Some(end) = bytes.windows(END.len()).position(|window| window == END) else {
            return Ok(None);
        };
        let head = str::from_utf8(&bytes[..end]).map_err(|_| malformed("the head is not text"))?;
        let mut lines = head.split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok())
            .ok_or_else(|| malformed("the status line is not HTTP/1.1's"))?;
        let content_length = lines
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .and_then(|(_, value)| value.trim().parse().ok());
        Ok(Some(Head { status, len: end + END.len(), content_length }))
    }
}

/// A `POST` below `/a2a/`.
fn post_a2a(host: SocketAddr, path: &str, key: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "POST /a2a/{path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\na2a-version: 1.0\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

pub(crate) fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
