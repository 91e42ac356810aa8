//! Logs: text on a terminal, JSON elsewhere, always on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::config::{LogFormat, LogLevel};

/// Starts logging for a relay that serves.
pub(super) fn start(level: LogLevel, format: LogFormat) {
    let json = match format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !io::stderr().is_terminal(),
    };
    if json {
        let layer = fmt::layer().json().flatten_event(true).with_span_list(false);
        install(level, layer.with_writer(io::stderr));
    } else {
        install(level, fmt::layer().with_target(false).with_ansi(colours()).with_writer(io::stderr));
    }
}

/// Starts logging for a command: only what its user should know.
pub(super) fn start_for_commands() {
    let layer = fmt::layer().without_time().with_target(false).with_ansi(colours()).with_writer(io::stderr);
    install(LogLevel::Info, layer);
}

fn colours() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn install(level: LogLevel, layer: impl Layer<Registry> + Send + Sync) {
    let own = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // What the libraries say in detail may hold what callers sent, and callers send keys.
    let libraries = own.min(LevelFilter::WARN);
    let filter = Targets::new().with_default(libraries).with_target("agentrelay", own);
    // A program starts its log once. A second start, in a test, changes nothing.
    let _ = tracing_subscriber::registry().with(layer.with_filter(filter)).try_init();
}
