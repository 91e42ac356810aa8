//! The client's gRPC: HTTP/2 without TLS, one connection, one call at a time, as little work per call as in [`crate::http`].
//!
//! An HTTP/2 library would spend on a call a third of what the relay does, and both share the machine's cores. So frames are
//! written and read here, as far as one call at a time needs them: a block of header bytes made before the clock starts,
//! windows that are never used up, and no table of the server's headers (its size is set to 0), so that a trailer can be
//! recognized by its bytes.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::{Request, malformed};

/// A connection on which one agent calls one method.
pub(crate) struct Connection {
    stream: TcpStream,
    /// The headers of a call: the first time in full, then as places in the table that the server has kept since.
    head: Vec<u8>,
    next_call: u32,
    /// The frames of the current call.
    sent: Vec<u8>,
    received: Vec<u8>,
    /// How much of `received` is done with.
    read: usize,
}

/// A frame's payload is this part of what was received.
struct Frame {
    kind: u8,
    flags: u8,
    payload: Range<usize>,
}

// RFC 9113, section 6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const FRAME_HEAD_LEN: usize = 9;
const WINDOW_MAX: u32 = (1 << 31) - 1;
const WINDOW_DEFAULT: u32 = 65_535;

/// Begins each message: whether it is compressed, and its length.
const PREFIX_LEN: usize = 5;

/// `grpc-status: 0` as a server writes it: each text by its length and in Huffman's code (RFC 7541, section 5.2).
const STATUS_OK: &[u8] = b"\x88\x9a\xca\xc8\xb2\x12\x34\xda\x8f\x81\x07";

impl Connection {
    /// Connects.
    pub(crate) async fn open(address: SocketAddr, key: &str, method: &str) -> io::Result<Connection> {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        // HEADER_TABLE_SIZE and INITIAL_WINDOW_SIZE.
        let settings = [&[0, 1, 0, 0, 0, 0, 0, 4], &WINDOW_MAX.to_be_bytes()[..]].concat();
        put_frame(&mut hello, SETTINGS, 0, 0, &settings);
        put_frame(&mut hello, WINDOW_UPDATE, 0, 0, &(WINDOW_MAX - WINDOW_DEFAULT).to_be_bytes());
        stream.write_all(&hello).await?;
        Ok(Connection {
            stream,
            head: headers_in_full(address, key, method),
            next_call: 1,
            sent: Vec::new(),
            received: Vec::with_capacity(16 * 1024),
            read: 0,
        })
    }

    /// Calls and waits for the whole answer; tells how the call was refused if it was.
    pub(crate) async fn call(&mut self, request: &Request) -> io::Result<Result<(), String>> {
        self.send(request).await?;
        let mut length = 0;
        loop {
            let frame = self.content().await?;
            if frame.kind == DATA {
                length += frame.payload.len();
            }
            if frame.flags & END_STREAM != 0 {
                let trailers = &self.received[frame.payload];
                let is_success = frame.kind == HEADERS && is_ok(trailers) && length > PREFIX_LEN;
                return Ok(if is_success { Ok(()) } else { Err(refusal(trailers)) });
            }
        }
    }

    /// Calls and gives the stream of answers.
    pub(crate) async fn stream(mut self, request: &Request) -> io::Result<Messages> {
        self.send(request).await?;
        let head = self.content().await?;
        if head.flags & END_STREAM != 0 {
            return Err(io::Error::other(refusal(&self.received[head.payload])));
        }
        Ok(Messages { connection: self, received: Vec::new() })
    }

    async fn send(&mut self, request: &Request) -> io::Result<()> {
        self.sent.clear();
        put_frame(&mut self.sent, HEADERS, END_HEADERS, self.next_call, &self.head);
        put_frame(&mut self.sent, DATA, END_STREAM, self.next_call, request.bytes());
        self.stream.write_all(&self.sent).await?;
        self.head.clear();
        self.head.extend_from_slice(HEADERS_KEPT);
        self.next_call += 2;
        Ok(())
    }

    /// The next frame of the answer. Answers what the server asks in between.
    async fn content(&mut self) -> io::Result<Frame> {
        loop {
            let frame = self.frame().await?;
            match frame.kind {
                DATA | HEADERS => return Ok(frame),
                SETTINGS | PING if frame.flags & ACK == 0 => {
                    let echo = if frame.kind == PING { &self.received[frame.payload] } else { &[] };
                    let mut answer = Vec::new();
                    put_frame(&mut answer, frame.kind, ACK, 0, echo);
                    self.stream.write_all(&answer).await?;
                }
                RST_STREAM => return Err(malformed("the server gave a call up")),
                GOAWAY => return Err(malformed("the server said good-bye")),
                _ => {}
            }
        }
    }

    async fn frame(&mut self) -> io::Result<Frame> {
        loop {
            let start = self.read + FRAME_HEAD_LEN;
            if let Some(&[a, b, c, kind, flags, ..]) = self.received.get(self.read..start) {
                let end = start + (usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c));
                if self.received.len() >= end {
                    self.read = end;
                    return Ok(Frame { kind, flags, payload: start..end });
                }
            }
            self.received.drain(..self.read);
            self.read = 0;
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(malformed("the server closed the connection"));
            }
        }
    }
}

/// A stream of answers.
pub(crate) struct Messages {
    connection: Connection,
    received: Vec<u8>,
}

impl Messages {
    /// The next message. The end of the stream is an error.
    pub(crate) async fn next<M: Message + Default>(&mut self) -> io::Result<M> {
        loop {
            if let Some(message) = self.first()? {
                return Ok(message);
            }
            let frame = self.connection.content().await?;
            if frame.flags & END_STREAM != 0 {
                return Err(malformed("a stream has ended"));
            }
            self.received.extend_from_slice(&self.connection.received[frame.payload]);
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

fn put_frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, call: u32, payload: &[u8]) {
    // What is sent here is far below a frame's limit of 16 KiB.
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    bytes.extend_from_slice(&[length[1], length[2], length[3], kind, flags]);
    bytes.extend_from_slice(&call.to_be_bytes());
    bytes.extend_from_slice(payload);
}

/// The headers of a call, of which the server is asked to keep those that its table does not have (RFC 7541, section 6.2.1).
fn headers_in_full(address: SocketAddr, key: &str, method: &str) -> Vec<u8> {
    // `:method: POST` and `:scheme: http` stand in everybody's table.
    let mut block = vec![0x83, 0x86];
    // Names that stand there go by their place, the other two are spelled out.
    let mut put = |name: &[u8], value: &str| {
        block.extend_from_slice(name);
        // Shorter than 127 bytes: the length is one of them, and the text is as it is.
        block.push(u8::try_from(value.len()).unwrap_or(0x7f));
        block.extend_from_slice(value.as_bytes());
    };
    put(&[0x44], &format!("/lf.a2a.v1.A2AService/{method}"));
    put(&[0x41], &address.to_string());
    put(&[0x5f], "application/grpc");
    put(b"\x40\x02te", "trailers");
    put(&[0x57], &format!("Bearer {key}"));
    put(b"\x40\x0ba2a-version", "1.0");
    block
}

/// The same, once the server keeps them: the last one that it was asked to keep has the place 62 (0xbe).
const HEADERS_KEPT: &[u8] = &[0x83, 0x86, 0xc3, 0xc2, 0xc1, 0xc0, 0xbf, 0xbe];

fn is_ok(trailers: &[u8]) -> bool {
    trailers.windows(STATUS_OK.len()).any(|window| window == STATUS_OK)
}

/// The trailers as they came: their texts are compressed.
fn refusal(trailers: &[u8]) -> String {
    format!("no grpc-status 0 in the trailers {trailers:02x?}")
}
