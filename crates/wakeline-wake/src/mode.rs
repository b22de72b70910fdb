//! The four ways of turning hints into claims.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::config::{ConfigError, millis};

/// How waiters are woken. In the configuration it is `"poll"`, `"broadcast"`, `"compete"`,
/// `"fused"`, or a table:
/// `{ poll = { interval_ms = 100, batch = 10, adaptive = false, grouping = "line" } }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WakeMode {
    /// Ignores hints and claims at a steady pace.
    Poll(PollMode),
    /// Every waiter that a hint concerns claims for itself.
    Broadcast,
    /// One waiter per hint claims for itself, and wakes the next one if there may be more.
    Compete,
    /// One claim serves all waiters of a line.
    #[default]
    Fused,
}

/// The settings of [`WakeMode::Poll`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PollMode {
    /// The time between two claims of a line, or of a waiter (see `grouping`). The default is 100
    /// ms.
    #[serde(rename = "interval_ms", with = "millis")]
    pub interval: Duration,
    /// A result of this many items counts as a full batch, even if the waiter could take more. It
    /// is also the number of items that is requested if the caller named none. The default is 10.
    pub batch: u32,
    /// Whether the pace follows the load: half the interval after a full batch, growing to five
    /// intervals while a line stays empty. The default is false.
    pub adaptive: bool,
    /// Whether lines or waiters claim. The default is [`PollGrouping::Line`].
    pub grouping: PollGrouping,
}

/// Whether lines or waiters claim in [`WakeMode::Poll`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PollGrouping {
    /// One claim in each interval serves all waiters of a line.
    #[default]
    Line,
    /// Each waiter claims for itself, as independent workers do.
    Waiter,
}

impl Default for PollMode {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(100),
            batch: 10,
            adaptive: false,
            grouping: PollGrouping::Line,
        }
    }
}

impl WakeMode {
    /// Returns the name of the mode, as it is used in the configuration and in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Poll(_) => "poll",
            Self::Broadcast => "broadcast",
            Self::Compete => "compete",
            Self::Fused => "fused",
        }
    }

    /// Returns whether hints wake waiters. If not, neither a listener nor a sweep is of use.
    pub fn uses_hints(&self) -> bool {
        !matches!(self, Self::Poll(_))
    }

    /// Returns whether one claim serves all waiters of a line.
    pub(crate) fn claims_by_line(&self) -> bool {
        match self {
            Self::Fused => true,
            Self::Poll(poll) => poll.grouping == PollGrouping::Line,
            Self::Compete | Self::Broadcast => false,
        }
    }

    /// Checks the settings; the error names the first invalid one.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Poll(poll) if poll.interval < Duration::from_millis(1) => {
                Err(ConfigError::new("poll_interval_ms", "must be at least 1, not 0"))
            }
            Self::Poll(poll) if poll.batch == 0 => {
                Err(ConfigError::new("poll_batch", "must be at least 1, not 0"))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for WakeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn unknown() -> ConfigError {
    ConfigError::new("wake_mode", "must be fused, compete, broadcast or poll")
}

impl FromStr for WakeMode {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        match name {
            "poll" => Ok(Self::Poll(PollMode::default())),
            "broadcast" => Ok(Self::Broadcast),
            "compete" => Ok(Self::Compete),
            "fused" => Ok(Self::Fused),
            _ => Err(unknown()),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WakeModeWire {
    Name(String),
    Table(PollModeTable),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PollModeTable {
    poll: PollMode,
}

impl Serialize for WakeMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Poll(poll) if *poll != PollMode::default() => {
                WakeModeWire::Table(PollModeTable { poll: *poll }).serialize(serializer)
            }
            _ => serializer.serialize_str(self.name()),
        }
    }
}

impl<'de> Deserialize<'de> for WakeMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match WakeModeWire::deserialize(deserializer) {
            Ok(WakeModeWire::Name(name)) => name.parse().map_err(serde::de::Error::custom),
            Ok(WakeModeWire::Table(table)) => Ok(Self::Poll(table.poll)),
            // The decoder's own error would name the types of this module that did not match.
            Err(_) => Err(serde::de::Error::custom(unknown())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_is_read_back_from_its_name() {
        for name in ["poll", "broadcast", "compete", "fused"] {
            let mode: WakeMode = name.parse().expect("a mode");
            assert_eq!(mode.to_string(), name);
            assert_eq!(mode.uses_hints(), name != "poll");
        }
        assert!("Fused".parse::<WakeMode>().is_err());
    }

    #[test]
    fn a_poll_that_would_spin_is_refused() {
        let mode = WakeMode::Poll(PollMode { interval: Duration::ZERO, ..PollMode::default() });
        assert_eq!(mode.validate().expect_err("zero").field, "poll_interval_ms");
        assert_eq!(WakeMode::default().validate(), Ok(()));
    }
}
