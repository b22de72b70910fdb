//! Helpers for fused calls: they separate commands that must not share a call, and isolate a
//! command that makes the call fail.
//!
//! # Where it sits
//! Between the fusers and the calls of orchestrations and webhooks.
//!
//! # Invariants
//! * Every command gets exactly one answer, in its place.
//! * A command with bad values fails alone: the other commands of its call succeed.

use std::collections::HashSet;
use std::hash::Hash;

use futures_util::future::BoxFuture;
use wakeline_store::StoreError;

use crate::error;
use crate::queue::same_error;

/// The results of a call, one for each of its commands.
pub(crate) type Flushed<R> = Vec<Result<R, StoreError>>;

/// Makes one call for all commands; if the error is caused by values, makes one call for each.
pub(crate) async fn one_by_one<'a, C, R>(
    commands: &'a [C],
    call: impl Fn(Vec<&'a C>) -> BoxFuture<'a, Result<Vec<R>, StoreError>>,
) -> Flushed<R> {
    match call(commands.iter().collect()).await {
        Ok(replies) => replies.into_iter().map(Ok).collect(),
        Err(error) if commands.len() > 1 && error::blames_values(&error) => {
            let mut results = Vec::with_capacity(commands.len());
            for command in commands {
                results.push(call(vec![command]).await.map(|mut replies| replies.remove(0)));
            }
            results
        }
        Err(error) => commands.iter().map(|_| Err(same_error(&error))).collect(),
    }
}

/// Splits commands into rounds, in order, so that no two commands of a round share a key. Each
/// round has the original indexes of its commands.
pub(crate) fn apart<C, K: Eq + Hash>(
    mut commands: Vec<C>,
    keys: impl Fn(&C) -> Vec<K>,
) -> Vec<(Vec<usize>, Vec<C>)> {
    let mut rounds = Vec::new();
    let mut indexes: Vec<usize> = (0..commands.len()).collect();
    while !commands.is_empty() {
        let mut seen = HashSet::new();
        let (mut now, mut later) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
        for (index, command) in indexes.into_iter().zip(commands) {
            let keys = keys(&command);
            let conflicts = keys.iter().any(|key| seen.contains(key));
            seen.extend(keys);
            let part = if conflicts { &mut later } else { &mut now };
            part.0.push(index);
            part.1.push(command);
        }
        rounds.push(now);
        (indexes, commands) = later;
    }
    rounds
}

/// Collects the results of several rounds in the order of the commands.
pub(crate) struct Answers<R>(Vec<Option<Result<R, StoreError>>>);

impl<R> Answers<R> {
    /// Creates `len` empty places.
    pub(crate) fn new(len: usize) -> Self {
        Self((0..len).map(|_| None).collect())
    }

    /// Puts the results of a round in their places.
    pub(crate) fn fill(
        &mut self,
        indexes: Vec<usize>,
        results: impl IntoIterator<Item = Result<R, StoreError>>,
    ) {
        for (index, result) in indexes.into_iter().zip(results) {
            self.0[index] = Some(result);
        }
    }

    /// Returns all results; a command without one has an unknown outcome.
    pub(crate) fn done(self, operation: &'static str) -> Flushed<R> {
        let lost = || Err(error::unanswered(operation));
        self.0.into_iter().map(|result| result.unwrap_or_else(lost)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_commands_that_share_a_key_share_a_round() {
        let split = apart(vec!["ab", "c", "bd", "d", "e"], |command| command.chars().collect());
        let expected =
            [(vec![0, 1, 4], vec!["ab", "c", "e"]), (vec![2], vec!["bd"]), (vec![3], vec!["d"])];
        assert_eq!(split, expected);
    }

    #[test]
    fn no_two_commands_of_a_key_share_a_round() {
        let commands = vec!["a1", "b1", "a2", "a3", "c1"];
        let split = apart(commands, |command| vec![command.as_bytes()[0]]);
        let expected =
            [(vec![0, 1, 4], vec!["a1", "b1", "c1"]), (vec![2], vec!["a2"]), (vec![3], vec!["a3"])];
        assert_eq!(split, expected);
    }
}
