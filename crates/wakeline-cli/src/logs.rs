//! Structured logs on standard error.
//!
//! # Invariants
//! * Logging neither blocks nor fails: lines wait in memory for a thread that writes them. If
//!   standard error is not read fast enough, lines are dropped and counted. If it is closed, they
//!   are discarded.
//! * Repeated lines are written once, and then counted.

mod repeats;

use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::repeats::RepeatedLines;
use crate::config::UsageError;

/// Maximum number of lines that wait to be written.
const LINES_LEN_MAX: usize = 10_000;
/// How long the end of the process waits for the remaining lines to be written.
const FLUSH_TIME: Duration = Duration::from_secs(1);

/// The format of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Text for people, in colour on a terminal.
    #[default]
    Text,
    /// One JSON object per line, for machines.
    Json,
}

/// Starts logging. `WAKELINE_LOG` is the filter, in the syntax of `RUST_LOG`.
pub(crate) fn start(format: LogFormat) -> Result<FlushOnDrop, UsageError> {
    let chosen = std::env::var_os("WAKELINE_LOG").unwrap_or_default();
    let filter = filter(&chosen.to_string_lossy())?;
    let repeats = RepeatedLines::default();
    let (lines, flush) = LogLines::start(io::stderr(), repeats.clone());
    let logs = tracing_subscriber::fmt::layer().with_writer(move || lines.clone());
    // No colours in files and for log collectors.
    let logs = logs.with_ansi(io::stderr().is_terminal());
    let registry = tracing_subscriber::registry().with(filter).with(repeats);
    match format {
        LogFormat::Text => registry.with(logs).init(),
        LogFormat::Json => registry.with(logs.json()).init(),
    }
    Ok(flush)
}

/// Parses the filter. A word without `=` must be a level or one of our crates: any other word would
/// be a target that does not exist, so that nothing would be logged.
fn filter(text: &str) -> Result<EnvFilter, UsageError> {
    if text.trim().is_empty() {
        return Ok("info".into());
    }
    let parts = || text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let is_target = |part: &str| part.contains(['=', '[']) || part.starts_with("wakeline");
    if let Some(wrong) =
        parts().find(|part| !is_target(part) && part.parse::<LevelFilter>().is_err())
    {
        return Err(UsageError(format!(
            "WAKELINE_LOG: {wrong:?} is not a level: use off, error, warn, info, debug or trace, \
             or TARGET=LEVEL, like wakeline_http=debug,info"
        )));
    }
    let mistake = |error| UsageError(format!("WAKELINE_LOG: {text:?}: {error}"));
    EnvFilter::builder().parse(text).map_err(mistake)
}

/// Queues lines for the writing thread. Each write is one line, and never fails.
#[derive(Debug, Clone)]
struct LogLines {
    waiting: SyncSender<WriterCommand>,
    dropped: Arc<AtomicU64>,
}

/// A message to the writing thread.
#[derive(Debug)]
enum WriterCommand {
    /// Writes a line.
    Text(Vec<u8>),
    /// Replies when everything before it is written.
    Flush(SyncSender<()>),
}

/// When dropped, waits up to [`FLUSH_TIME`] until all earlier lines are written.
#[derive(Debug)]
pub(crate) struct FlushOnDrop(SyncSender<WriterCommand>);

impl LogLines {
    fn start(out: impl Write + Send + 'static, repeats: RepeatedLines) -> (Self, FlushOnDrop) {
        let (waiting, lines) = sync_channel(LINES_LEN_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&dropped);
        let flush = FlushOnDrop(waiting.clone());
        let thread = std::thread::Builder::new().name("wakeline-logs".to_owned());
        // If the thread cannot be started there are no logs, but the server still works.
        let _ = thread.spawn(move || write_lines(out, &lines, &counted, &repeats));
        (Self { waiting, dropped }, flush)
    }
}

/// Writes lines until all senders are gone.
fn write_lines(
    mut out: impl Write,
    lines: &Receiver<WriterCommand>,
    dropped: &AtomicU64,
    repeats: &RepeatedLines,
) {
    loop {
        // Without repeated lines there is no deadline: wait for the next line.
        let line = match repeats.time_until_expiry(Instant::now()) {
            Some(wait) => lines.recv_timeout(wait),
            None => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        repeats::log(repeats.take_expired(Instant::now()));
        match line {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Ok(WriterCommand::Text(text)) => {
                // A failure to write the log cannot be reported anywhere else.
                let _ = out.write_all(&text);
                let lost = dropped.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    tracing::warn!(
                        lines = lost,
                        "log lines were lost: the reader of standard error is too slow"
                    );
                }
            }
            Ok(WriterCommand::Flush(done)) => {
                let _ = out.flush();
                let _ = done.try_send(());
            }
        }
    }
}

impl Write for LogLines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if self.waiting.try_send(WriterCommand::Text(text.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        // If standard error is not read, the last lines are lost.
        let deadline = Instant::now() + FLUSH_TIME;
        let (done, flushed) = sync_channel(1);
        let mut flush = WriterCommand::Flush(done);
        while let Err(TrySendError::Full(unsent)) = self.0.try_send(flush) {
            if Instant::now() >= deadline {
                return;
            }
            flush = unsent;
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = flushed.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts a line for each message of a channel, and blocks while there is none. Counts lines.
    struct Stuck(Receiver<()>, Arc<AtomicU64>);

    impl Write for Stuck {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.fetch_add(1, Ordering::SeqCst);
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_dropped_while_standard_error_is_not_read() {
        let (resume, blocked) = sync_channel(0);
        let written = Arc::new(AtomicU64::new(0));
        let (mut lines, flush) =
            LogLines::start(Stuck(blocked, Arc::clone(&written)), RepeatedLines::default());
        for _ in 0..LINES_LEN_MAX + 100 {
            lines.write_all(b"line\n").expect("it never fails");
        }
        let dropped = lines.dropped.load(Ordering::Relaxed);
        assert!((99..=100).contains(&dropped), "{dropped}");
        drop(resume);
        // The queue has capacity again as soon as one line is written.
        while flush.0.try_send(WriterCommand::Text(b"last\n".to_vec())).is_err() {
            std::thread::yield_now();
        }
        drop(flush);
        let expected = u64::try_from(LINES_LEN_MAX).expect("small") + 100 - dropped + 1;
        assert_eq!(written.load(Ordering::SeqCst), expected);
    }

    #[test]
    fn an_invalid_filter_is_refused() {
        for fine in ["", "info", "OFF", "wakeline_http", "wakeline_http=debug,warn", "hyper=trace"]
        {
            assert!(filter(fine).is_ok(), "{fine}");
        }
        for wrong in ["loud", "info,verbose", "wakeline_http=loud", "debug;warn"] {
            let mistake = filter(wrong).expect_err(wrong).to_string();
            assert!(mistake.contains("WAKELINE_LOG"), "{mistake}");
        }
    }

    #[test]
    fn closed_standard_error_is_not_an_error() {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let (mut lines, flush) = LogLines::start(writer, RepeatedLines::default());
        lines.write_all(b"line\n").expect("it never fails");
        drop(flush);
    }
}
