//! The end of a serving process: asked for with SIGTERM or Ctrl-C, and over within three seconds.

use std::io;
use std::time::Duration;

use tokio::sync::oneshot;

/// How long a relay may take to end after it was asked to.
const END_MAX: Duration = Duration::from_secs(3);
/// How a program ends that Ctrl-C stopped.
const INTERRUPTED: i32 = 130;

/// Completes when the process is asked to end. From then on it does end: a second Ctrl-C ends it at once, and so does
/// the clock, should anything hang. Whatever was acknowledged is on disk.
///
/// # Errors
/// When the system does not let this process listen for signals.
pub(super) fn requested() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut signals = Signals::listen()?;
    let (ask, asked) = oneshot::channel();
    tokio::spawn(async move {
        signals.terminate_or_interrupt().await;
        std::thread::spawn(|| {
            std::thread::sleep(END_MAX);
            tracing::warn!("the relay did not end in time and was ended; what it acknowledged is on disk");
            std::process::exit(0);
        });
        let _ = ask.send(());
        signals.interrupt().await;
        std::process::exit(INTERRUPTED);
    });
    Ok(async move {
        let _ = asked.await;
    })
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// From here on the signals no longer end the process by themselves.
    fn listen() -> io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn terminate_or_interrupt(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    async fn interrupt(&mut self) {
        self.interrupt.recv().await;
    }
}

#[cfg(windows)]
struct Signals {
    interrupt: tokio::signal::windows::CtrlC,
    close: tokio::signal::windows::CtrlClose,
}

#[cfg(windows)]
impl Signals {
    fn listen() -> io::Result<Signals> {
        Ok(Signals { interrupt: tokio::signal::windows::ctrl_c()?, close: tokio::signal::windows::ctrl_close()? })
    }

    async fn terminate_or_interrupt(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.close.recv() => {}
        }
    }

    async fn interrupt(&mut self) {
        self.interrupt.recv().await;
    }
}
