//! Structured logs on standard error.
//!
//! # Invariants
//! * Logging neither blocks nor fails: lines wait in memory for a thread that writes them. If
//!   nobody reads standard error, lines are dropped and counted; if its reader is gone, they go
//!   nowhere.
//! * The same line over and over is written once, and then counted.

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

use self::repeats::Repeats;
use crate::config::ConfigMistake;

/// Lines that may wait to be written.
const LINES_LEN_MAX: usize = 10_000;
/// Time for lines that wait to be written when the process ends.
const FLUSH_TIME: Duration = Duration::from_secs(1);

/// How log lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// Begins to log. `WAKELINE_LOG` chooses what, in the syntax of `RUST_LOG`.
pub(crate) fn start(format: LogFormat) -> Result<Flush, ConfigMistake> {
    let chosen = std::env::var_os("WAKELINE_LOG").unwrap_or_default();
    let filter = filter(&chosen.to_string_lossy())?;
    let repeats = Repeats::default();
    let (lines, flush) = LogLines::start(io::stderr(), repeats.clone());
    let logs = tracing_subscriber::fmt::layer().with_writer(move || lines.clone());
    // Colours are for people: not for files and collectors.
    let logs = logs.with_ansi(io::stderr().is_terminal());
    let registry = tracing_subscriber::registry().with(filter).with(repeats);
    match format {
        LogFormat::Text => registry.with(logs).init(),
        LogFormat::Json => registry.with(logs.json()).init(),
    }
    Ok(flush)
}

/// What to log. A word alone is a level or one of our crates: anything else would be taken for a
/// target that does not exist, and nothing would be logged.
fn filter(text: &str) -> Result<EnvFilter, ConfigMistake> {
    if text.trim().is_empty() {
        return Ok("info".into());
    }
    let parts = || text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let is_target = |part: &str| part.contains(['=', '[']) || part.starts_with("wakeline");
    if let Some(wrong) =
        parts().find(|part| !is_target(part) && part.parse::<LevelFilter>().is_err())
    {
        return Err(ConfigMistake(format!(
            "WAKELINE_LOG: {wrong:?} is not a level: use off, error, warn, info, debug or trace, \
             or TARGET=LEVEL, like wakeline_http=debug,info"
        )));
    }
    let mistake = |error| ConfigMistake(format!("WAKELINE_LOG: {text:?}: {error}"));
    EnvFilter::builder().parse(text).map_err(mistake)
}

/// Takes lines and never fails: each write is one line.
#[derive(Debug, Clone)]
struct LogLines {
    waiting: SyncSender<Line>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Line {
    Text(Vec<u8>),
    /// Everything before this was written: say so.
    Flush(SyncSender<()>),
}

/// Waits, when it is dropped, until what was logged before is written; but not for long.
#[derive(Debug)]
pub(crate) struct Flush(SyncSender<Line>);

impl LogLines {
    fn start(out: impl Write + Send + 'static, repeats: Repeats) -> (Self, Flush) {
        let (waiting, lines) = sync_channel(LINES_LEN_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&dropped);
        let flush = Flush(waiting.clone());
        let thread = std::thread::Builder::new().name("wakeline-logs".to_owned());
        // Without the thread there are no logs; the server itself can do without.
        let _ = thread.spawn(move || write_lines(out, &lines, (&counted, &repeats)));
        (Self { waiting, dropped }, flush)
    }
}

fn write_lines(
    mut out: impl Write,
    lines: &Receiver<Line>,
    (dropped, repeats): (&AtomicU64, &Repeats),
) {
    loop {
        // With nothing to count there is nothing to wake up for.
        let line = match repeats.next_over(Instant::now()) {
            Some(wait) => lines.recv_timeout(wait),
            None => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        repeats::log(repeats.take_over(Instant::now()));
        match line {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Ok(Line::Text(text)) => {
                // There is no other place where a failure could be reported.
                let _ = out.write_all(&text);
                let lost = dropped.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    tracing::warn!(
                        lines = lost,
                        "log lines were dropped: standard error was not read fast enough"
                    );
                }
            }
            Ok(Line::Flush(done)) => {
                let _ = out.flush();
                let _ = done.try_send(());
            }
        }
    }
}

impl Write for LogLines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if self.waiting.try_send(Line::Text(text.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        // If nobody reads standard error the last lines are lost.
        let deadline = Instant::now() + FLUSH_TIME;
        let (done, flushed) = sync_channel(1);
        let mut flush = Line::Flush(done);
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

    /// Lets so many lines through, then stands still until it is dropped with its sender.
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
    fn a_reader_that_stands_still_costs_lines_and_nothing_else() {
        let (go_on, stands) = sync_channel(0);
        let written = Arc::new(AtomicU64::new(0));
        let (mut lines, flush) =
            LogLines::start(Stuck(stands, Arc::clone(&written)), Repeats::default());
        for _ in 0..LINES_LEN_MAX + 100 {
            lines.write_all(b"line\n").expect("it never fails");
        }
        let dropped = lines.dropped.load(Ordering::Relaxed);
        assert!((99..=100).contains(&dropped), "{dropped}");
        drop(go_on);
        // There is room again as soon as one line is written.
        while flush.0.try_send(Line::Text(b"last\n".to_vec())).is_err() {
            std::thread::yield_now();
        }
        drop(flush);
        let expected = u64::try_from(LINES_LEN_MAX).expect("small") + 100 - dropped + 1;
        assert_eq!(written.load(Ordering::SeqCst), expected);
    }

    #[test]
    fn what_to_log_is_understood_or_refused() {
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
    fn a_reader_that_is_gone_is_no_error() {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let (mut lines, flush) = LogLines::start(writer, Repeats::default());
        lines.write_all(b"line\n").expect("it never fails");
        drop(flush);
    }
}
