//! The client's server-sent events: a reply in chunks that does not end.

use std::io;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::http::{Connection, Request, malformed};

/// A stream of events.
pub(crate) struct Events {
    stream: TcpStream,
    /// As it was read, in chunks.
    received: Vec<u8>,
    /// What the chunks hold.
    text: Vec<u8>,
}

/// What stands between two empty lines.
#[derive(Debug)]
pub(crate) enum Block {
    /// An event, all its lines.
    Event(Vec<u8>),
    /// A comment, which says that the stream lives.
    Comment,
}

impl Events {
    /// Sends the request, whose answer is a stream.
    pub(crate) async fn open(connection: Connection, request: &Request) -> io::Result<Events> {
        let (stream, received) = connection.stream(request).await?;
        Ok(Events { stream, received, text: Vec::new() })
    }

    /// The next block. The end of the stream is an error.
    pub(crate) async fn next(&mut self) -> io::Result<Block> {
        const END: &[u8] = b"\n\n";

        loop {
            while let Some(chunk) = self.chunk()? {
                self.text.extend_from_slice(&chunk);
            }
            if let Some(end) = self.text.windows(END.len()).position(|window| window == END) {
                let block: Vec<u8> = self.text.drain(..end + END.len()).collect();
                return Ok(if block.starts_with(b":") { Block::Comment } else { Block::Event(block) });
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(malformed("the server closed the connection"));
            }
        }
    }

    /// The first chunk, if all of it is here.
    fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        const LINE_END: &[u8] = b"\r\n";

        let Some(line) = self.received.windows(LINE_END.len()).position(|window| window == LINE_END) else {
            return Ok(None);
        };
        let length = str::from_utf8(&self.received[..line]).ok();
        let length = length.and_then(|length| usize::from_str_radix(length, 16).ok());
        let length = length.ok_or_else(|| malformed("the stream is not in chunks"))?;
        if length == 0 {
            return Err(malformed("a stream has ended"));
        }
        let start = line + LINE_END.len();
        if self.received.len() < start + length + LINE_END.len() {
            return Ok(None);
        }
        let chunk = self.received[start..start + length].to_vec();
        self.received.drain(..start + length + LINE_END.len());
        Ok(Some(chunk))
    }
}
