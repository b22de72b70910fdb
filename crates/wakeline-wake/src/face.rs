//! What a face (queue, later flow and hook) gives the hub: its vocabulary and its store calls.

use std::error::Error;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use async_trait::async_trait;

/// A face's vocabulary, and the three store calls that the hub makes on behalf of its waiters.
#[async_trait]
pub trait Face: Send + Sync + 'static {
    /// What is claimed together: a topic plus the consumer group or the filter.
    type Line: Clone + Eq + Hash + Debug + Send + Sync + 'static;
    /// What hints speak of.
    type Topic: Clone + Eq + Hash + Debug + Send + Sync + 'static;
    /// Something may have changed. Carries no data.
    type Hint: Clone + Debug + Send + Sync + 'static;
    /// What one waiter can take.
    type Ask: Clone + Send + Sync + 'static;
    /// What one waiter got.
    type Grant: Send + 'static;
    /// Why a store call failed.
    type Error: Clone + Debug + Into<Box<dyn Error + Send + Sync>> + Send + Sync + 'static;

    /// The topic whose hints may concern this line.
    fn topic(line: &Self::Line) -> Self::Topic;

    /// The topics whose lines may be concerned by this hint.
    fn topics(hint: &Self::Hint) -> Vec<Self::Topic>;

    /// Whether a waiter of this line may be able to take what the hint speaks of.
    fn concerns(hint: &Self::Hint, line: &Self::Line) -> bool;

    /// Whether those who wait in this line are the face itself, at its background work: they take
    /// up no room of consumers, and are not counted among them.
    fn is_own(line: &Self::Line) -> bool {
        let _ = line;
        false
    }

    /// Whether the hint may concern lines of any topic (a change of a whole queue, say). Then
    /// every line is asked by [`Face::concerns`], and [`Face::topics`] is not used.
    fn spans_topics(hint: &Self::Hint) -> bool {
        let _ = hint;
        false
    }

    /// How long until there is something to claim; zero for now.
    fn due_in(hint: &Self::Hint) -> Duration;

    /// Most items that one grant for this ask can hold.
    fn capacity(ask: &Self::Ask) -> usize;

    /// Whether the store may have to refuse this ask: then it claims before it parks, however
    /// empty its line is known to be, so that a wrong one is answered at once.
    fn needs_check(ask: &Self::Ask) -> bool {
        let _ = ask;
        false
    }

    /// Whether a claim that failed with this error may have taken something for this ask that no
    /// later claim finds again. Then its waiter is answered with the error, and does not wait on.
    fn may_have_taken(ask: &Self::Ask, error: &Self::Error) -> bool {
        let _ = (ask, error);
        false
    }

    /// How many items a grant holds.
    fn items(grant: &Self::Grant) -> usize;

    /// Name under which the waiters of this line are counted in the metrics (a queue, say);
    /// `None` counts them for the face as a whole only.
    fn label(line: &Self::Line) -> Option<String> {
        let _ = line;
        None
    }

    /// Claims for the waiters of some lines: one store call, one outcome per claim, in order. An
    /// error is trouble of the store, and concerns all of them; what one waiter did wrong is among
    /// the refused of its line instead.
    async fn claim(
        &self,
        claims: Vec<Claim<Self::Line, Self::Ask>>,
    ) -> Result<Vec<Claimed<Self::Grant, Self::Error>>, Self::Error>;

    /// Reads, without claiming, how long until each line has something: zero if it has now.
    /// The hub asks for at most 1,000 lines at a time.
    async fn sweep(&self, lines: Vec<Self::Line>) -> Result<Vec<Option<Duration>>, Self::Error>;

    /// Gives back, uncounted, what was claimed for waiters that have gone. Returns what this made
    /// available: to other lines too, which may have seen it as taken meanwhile.
    async fn release(&self, grants: Vec<Self::Grant>) -> Vec<Self::Hint>;
}

/// The waiters of one line that take part in a store call.
#[derive(Debug, Clone)]
pub struct Claim<L, A> {
    /// What they wait for.
    pub line: L,
    /// What each can take, in order of arrival; at least one, at most 1,000 in a call.
    pub asks: Vec<A>,
    /// Whether the outcome should say what is next even if every ask is served. A face may leave
    /// that out where it would cost a statement.
    pub further: bool,
}

/// What a store call found in one line.
#[derive(Debug, Clone)]
pub struct Claimed<G, E> {
    /// One per ask, in order; `None` where there was nothing left.
    pub grants: Vec<Option<G>>,
    /// If an ask went without: how long until the next item of the line becomes available,
    /// possibly early, never late; `None` if nothing is in sight.
    pub next_due: Option<Duration>,
    /// Whether `next_due` holds although every ask was served ([`Claim::further`]).
    pub further: bool,
    /// Asks that are wrong in themselves, by index, each with what is wrong with it. Their waiters
    /// are answered with that; nobody else is concerned.
    pub refused: Vec<(usize, E)>,
}

impl<G, E> Claimed<G, E> {
    /// What was found, with nothing refused.
    pub fn new(grants: Vec<Option<G>>, next_due: Option<Duration>) -> Self {
        Self { grants, next_due, further: false, refused: Vec::new() }
    }
}
