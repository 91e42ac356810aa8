//! The listener: connections that never wait, and on which a gRPC answer is one packet.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::serve;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// How an HTTP/2 client begins.
const HTTP_2: &[u8] = b"PRI ";

/// Accepts connections for the server.
pub(super) struct Listener(pub(super) TcpListener);

impl serve::Listener for Listener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let (stream, from) = serve::Listener::accept(&mut self.0).await;
        // Answers are small and waited for: never hold one back to fill a packet.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
        (Connection { stream, protocol: Protocol::Unknown }, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// A connection that tells HTTP/2 not to gather.
///
/// Where several buffers can be written at once, the HTTP/2 implementation (`h2`) writes each DATA frame from 256 bytes on by
/// itself: an answer's data, and then its trailers, with a system call, a packet and a wake-up of the client for each. Where
/// they cannot, it copies DATA up to 1 KiB beside the rest, which costs nothing. HTTP/1.1 does gather: its bodies are large.
pub(super) struct Connection {
    stream: TcpStream,
    protocol: Protocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// Nothing was read yet.
    Unknown,
    Http1,
    Http2,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.protocol == Protocol::Unknown {
            let read = &buffer.filled()[before..];
            if !read.is_empty() {
                self.protocol = if read.starts_with(HTTP_2) { Protocol::Http2 } else { Protocol::Http1 };
            }
        }
        polled
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.protocol != Protocol::Http2 && self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use axum::serve::Listener as _;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn only_http_2_does_not_gather() {
        for (begins, gathers) in [("GET / HTTP/1.1\r\n\r\n", true), ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false)] {
            let mut listener = Listener(TcpListener::bind("127.0.0.1:0").await.expect("a port"));
            let address = listener.local_addr().expect("an address");
            let mut client = TcpStream::connect(address).await.expect("a connection");
            let (mut connection, _) = listener.accept().await;
            client.write_all(begins.as_bytes()).await.expect("written");
            let mut read = vec![0; begins.len()];
            connection.read_exact(&mut read).await.expect("read");
            assert_eq!(connection.is_write_vectored(), gathers, "{begins}");
            assert_eq!(read, begins.as_bytes());
        }
    }
}
