//! The trait through which an API (queues, workflows, webhooks) plugs into the hub: its types and
//! its store calls.

use std::error::Error;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use async_trait::async_trait;

/// The types of one API, and the three store calls that the hub makes on behalf of its waiters.
#[async_trait]
pub trait Api: Send + Sync + 'static {
    /// What is claimed together: a topic plus the consumer group or the filter.
    type Line: Clone + Eq + Hash + Debug + Send + Sync + 'static;
    /// What a hint refers to.
    type Topic: Clone + Eq + Hash + Debug + Send + Sync + 'static;
    /// A notice that something may have changed. It carries no data.
    type Hint: Clone + Debug + Send + Sync + 'static;
    /// What one waiter can take.
    type Request: Clone + Send + Sync + 'static;
    /// What one waiter got from a claim.
    type ClaimResult: Send + 'static;
    /// The reason why a store call failed.
    type Error: Clone + Debug + Into<Box<dyn Error + Send + Sync>> + Send + Sync + 'static;

    /// Returns the topic whose hints may concern this line.
    fn topic(line: &Self::Line) -> Self::Topic;

    /// Returns the topics whose lines may be concerned by this hint.
    fn topics(hint: &Self::Hint) -> Vec<Self::Topic>;

    /// Returns whether a waiter of this line may be able to take what the hint refers to.
    fn concerns(hint: &Self::Hint, line: &Self::Line) -> bool;

    /// Returns whether the waiters of this line are the API's own background tasks. They do not
    /// count against the limit of waiting consumers and are not counted among them.
    fn is_own(line: &Self::Line) -> bool {
        let _ = line;
        false
    }

    /// Returns whether the hint may concern lines of any topic, for example a change of a whole
    /// queue. Then every line is checked with [`Api::concerns`], and [`Api::topics`] is not used.
    fn spans_topics(hint: &Self::Hint) -> bool {
        let _ = hint;
        false
    }

    /// Returns the time until there is something to claim; zero if there is something now.
    fn due_in(hint: &Self::Hint) -> Duration;

    /// Returns the maximum number of items that one result for this request can hold.
    fn capacity(request: &Self::Request) -> usize;

    /// Returns whether the store may have to refuse this request. Such a request is claimed before
    /// it is parked, even if its line is known to be empty, so that an invalid one is answered
    /// immediately.
    fn needs_check(request: &Self::Request) -> bool {
        let _ = request;
        false
    }

    /// Returns whether a claim that failed with this error may have taken something for this
    /// request that no later claim finds again. In that case its waiter receives the error and
    /// stops waiting.
    fn may_have_taken(request: &Self::Request, error: &Self::Error) -> bool {
        let _ = (request, error);
        false
    }

    /// Returns the number of items in a result.
    fn items(result: &Self::ClaimResult) -> usize;

    /// Returns the name under which the waiters of this line are counted in the metrics, for
    /// example a queue. With `None` they are counted only for the API as a whole.
    fn label(line: &Self::Line) -> Option<String> {
        let _ = line;
        None
    }

    /// Claims for the waiters of some lines: one store call, one outcome per claim, in order. An
    /// error is a failure of the store and concerns all claims. A request that is invalid by itself
    /// is reported in the `refused` of its line instead.
    async fn claim(
        &self,
        claims: Vec<Claim<Self::Line, Self::Request>>,
    ) -> Result<Vec<ClaimOutcome<Self::ClaimResult, Self::Error>>, Self::Error>;

    /// Reads, without claiming, the time until each line has something: zero if it has something
    /// now. The hub passes at most 1,000 lines at a time.
    async fn sweep(&self, lines: Vec<Self::Line>) -> Result<Vec<Option<Duration>>, Self::Error>;

    /// Gives back what was claimed for waiters that have gone, without counting it as an attempt.
    /// Returns hints for what this made available, also to other lines that may have seen it as
    /// taken meanwhile.
    async fn release(&self, results: Vec<Self::ClaimResult>) -> Vec<Self::Hint>;
}

/// The waiters of one line that take part in a store call.
#[derive(Debug, Clone)]
pub struct Claim<L, R> {
    /// The line in which they wait.
    pub line: L,
    /// What each waiter can take, in order of arrival: at least one request, at most 1,000 in a
    /// call.
    pub requests: Vec<R>,
    /// Whether the outcome should report when the next item is due even if every request is served.
    /// An API may leave that out where it would cost an additional statement.
    pub further: bool,
}

/// What a store call found in one line.
#[derive(Debug, Clone)]
pub struct ClaimOutcome<C, E> {
    /// One entry per request, in order; `None` where nothing was left.
    pub results: Vec<Option<C>>,
    /// If a request got nothing: the time until the next item of the line becomes available,
    /// possibly early, never late. `None` if no further item is known.
    pub next_due: Option<Duration>,
    /// Whether `next_due` is valid although every request was served ([`Claim::further`]).
    pub further: bool,
    /// The requests that are invalid by themselves, by index, each with its error. Only their
    /// waiters receive these errors.
    pub refused: Vec<(usize, E)>,
}

impl<C, E> ClaimOutcome<C, E> {
    /// Creates an outcome without refused requests.
    pub fn new(results: Vec<Option<C>>, next_due: Option<Duration>) -> Self {
        Self { results, next_due, further: false, refused: Vec::new() }
    }
}
