//! What a key or a token allows: verbs on names, by face.
//!
//! # Invariants
//! * A scope gives exactly its verb: `admin` includes neither `read` nor anything else.
//! * Nothing is allowed that no scope names.

use std::fmt;
use std::str::FromStr;

use crate::name::{self, NameError};

/// What a scope is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Realm {
    /// Queues, by name.
    Queue,
    /// Orchestrations, by instance.
    Flow,
    /// Webhooks, by application.
    Hook,
    /// The server itself: metrics, keys, the audit. It has no names.
    Server,
}

impl Realm {
    const ALL: [Self; 4] = [Self::Queue, Self::Flow, Self::Hook, Self::Server];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Flow => "flow",
            Self::Hook => "hook",
            Self::Server => "server",
        }
    }
}

/// What one may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Look.
    Read,
    /// Bring work: push; start and signal (`start`); emit (`emit`).
    Push,
    /// Take work and settle it: pop; work (`work`); pull (`pull`).
    Pop,
    /// Change how things are handled, short of removing them.
    Configure,
    /// Remove, end by force, and what concerns everybody.
    Admin,
}

impl Verb {
    const ALL: [Self; 5] = [Self::Read, Self::Push, Self::Pop, Self::Configure, Self::Admin];

    /// The word for it in a realm.
    pub fn as_str(self, realm: Option<Realm>) -> &'static str {
        match (self, realm) {
            (Self::Push, Some(Realm::Flow)) => "start",
            (Self::Push, Some(Realm::Hook)) => "emit",
            (Self::Pop, Some(Realm::Flow)) => "work",
            (Self::Pop, Some(Realm::Hook)) => "pull",
            (Self::Read, _) => "read",
            (Self::Push, _) => "push",
            (Self::Pop, _) => "pop",
            (Self::Configure, _) => "configure",
            (Self::Admin, _) => "admin",
        }
    }
}

/// Why a text is not a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// It does not have three parts.
    #[error("a scope has three parts, like queue:push:orders.*, not {0:?}")]
    Parts(String),
    /// Its first part is unknown.
    #[error("{0:?} is not an area of scopes: use queue, flow, hook, server or *")]
    Realm(String),
    /// Its second part is unknown.
    #[error("{0:?} is not a verb of {1}: use read, push, pop, configure, admin or *")]
    Verb(String, String),
    /// Its third part cannot match a name.
    #[error(transparent)]
    Glob(#[from] NameError),
}

/// One thing that is allowed: `face:verb:name`, where `*` stands for any face, any verb, or any
/// part of a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    realm: Option<Realm>,
    verb: Option<Verb>,
    glob: Box<str>,
}

impl Scope {
    /// A verb on everything, in every realm.
    pub fn of_verb(verb: Verb) -> Self {
        Self { realm: None, verb: Some(verb), glob: "*".into() }
    }

    /// Everything.
    pub fn everything() -> Self {
        Self { realm: None, verb: None, glob: "*".into() }
    }

    fn is_about(&self, realm: Realm) -> bool {
        self.realm.is_none_or(|own| own == realm)
    }

    fn gives(&self, realm: Realm, verb: Verb) -> bool {
        self.is_about(realm) && self.verb.is_none_or(|own| own == verb)
    }
}

impl FromStr for Scope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        let parts = || ScopeError::Parts(text.to_owned());
        let (realm, rest) = text.split_once(':').ok_or_else(parts)?;
        let (verb, glob) = rest.split_once(':').ok_or_else(parts)?;
        name::check("the name in a scope", glob)?;
        let known = match realm {
            "*" => None,
            word => {
                let found = Realm::ALL.into_iter().find(|realm| realm.as_str() == word);
                Some(found.ok_or_else(|| ScopeError::Realm(word.to_owned()))?)
            }
        };
        let verb = match verb {
            "*" => None,
            word => {
                let is = |verb: &Verb| verb.as_str(known) == word || verb.as_str(None) == word;
                let unknown = || ScopeError::Verb(word.to_owned(), realm.to_owned());
                Some(Verb::ALL.into_iter().find(is).ok_or_else(unknown)?)
            }
        };
        Ok(Self { realm: known, verb, glob: glob.into() })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let realm = self.realm.map_or("*", Realm::as_str);
        let verb = self.verb.map_or("*", |verb| verb.as_str(self.realm));
        write!(f, "{realm}:{verb}:{}", self.glob)
    }
}

/// All that a caller may do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// These.
    pub fn new(scopes: Vec<Scope>) -> Self {
        Self(scopes)
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Scope> {
        self.0.iter()
    }

    /// Whether a verb on a name is allowed.
    pub fn allow(&self, realm: Realm, verb: Verb, name: &str) -> bool {
        self.0.iter().any(|scope| scope.gives(realm, verb) && matches(&scope.glob, name))
    }

    /// Whether a verb is allowed on every name there can be.
    pub fn allow_all(&self, realm: Realm, verb: Verb) -> bool {
        self.0.iter().any(|scope| scope.gives(realm, verb) && is_all(&scope.glob))
    }

    /// Whether a verb is allowed on some name.
    pub fn allow_some(&self, realm: Realm, verb: Verb) -> bool {
        self.0.iter().any(|scope| scope.gives(realm, verb))
    }

    /// Whether something is allowed on a name, so that it may be known to exist.
    pub fn see(&self, realm: Realm, name: &str) -> bool {
        self.0.iter().any(|scope| scope.is_about(realm) && matches(&scope.glob, name))
    }

    /// Whether everything is allowed.
    pub fn is_everything(&self) -> bool {
        let all = |scope: &Scope| scope.realm.is_none() && scope.verb.is_none();
        self.0.iter().any(|scope| all(scope) && is_all(&scope.glob))
    }
}

fn is_all(glob: &str) -> bool {
    glob.bytes().all(|byte| byte == b'*')
}

/// Whether a name fits a glob in which `*` stands for any text. Linear but for the stars.
fn matches(glob: &str, name: &str) -> bool {
    let mut pieces = glob.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    // Without a star the glob is the name.
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scopes(texts: &[&str]) -> Scopes {
        Scopes::new(texts.iter().map(|text| text.parse().expect("a scope")).collect())
    }

    #[test]
    fn a_scope_gives_its_verb_on_its_names_and_nothing_else() {
        let own = scopes(&["queue:push:orders.*", "hook:read:acme"]);
        assert!(own.allow(Realm::Queue, Verb::Push, "orders.new"));
        assert!(!own.allow(Realm::Queue, Verb::Push, "orders"));
        assert!(!own.allow(Realm::Queue, Verb::Pop, "orders.new"));
        assert!(!own.allow(Realm::Hook, Verb::Push, "orders.new"));
        assert!(own.see(Realm::Queue, "orders.new") && !own.see(Realm::Queue, "other"));
        assert!(own.allow(Realm::Hook, Verb::Read, "acme"));
        assert!(!own.allow(Realm::Hook, Verb::Read, "acme2"));
        assert!(!own.allow_all(Realm::Queue, Verb::Push));
        assert!(own.allow_some(Realm::Queue, Verb::Push));
        assert!(!own.is_everything());
        assert!(!scopes(&["queue:admin:*"]).allow(Realm::Queue, Verb::Read, "q"));
    }

    #[test]
    fn stars_stand_for_everything() {
        let all = scopes(&["*:*:*"]);
        assert!(all.is_everything());
        for realm in Realm::ALL {
            for verb in Verb::ALL {
                assert!(all.allow(realm, verb, "anything") && all.allow_all(realm, verb));
            }
        }
        let flow = scopes(&["flow:*:*"]);
        assert!(flow.allow_all(Realm::Flow, Verb::Admin));
        assert!(!flow.allow_some(Realm::Queue, Verb::Read) && !flow.is_everything());
        assert!(!scopes(&["*:*:a*"]).is_everything());
    }

    #[test]
    fn scopes_are_written_as_they_are_read() {
        for text in ["queue:push:orders.*", "flow:start:a", "hook:emit:*", "*:pop:x", "*:*:*"] {
            assert_eq!(text.parse::<Scope>().expect("a scope").to_string(), text);
        }
        // The common word is understood in every realm.
        assert_eq!("hook:push:*".parse::<Scope>().expect("a scope").to_string(), "hook:emit:*");
        // What follows the second colon is a name, colons and all.
        let odd: Scope = "queue:read:a:b".parse().expect("a scope");
        assert!(Scopes::new(vec![odd]).allow(Realm::Queue, Verb::Read, "a:b"));
    }

    #[test]
    fn what_is_no_scope_is_refused() {
        for text in ["", "queue", "queue:push", "queue:push:", "quue:push:*", "queue:emit:*"] {
            assert!(text.parse::<Scope>().is_err(), "{text}");
        }
        assert!("queue:read:a\nb".parse::<Scope>().is_err());
    }

    #[test]
    fn globs_match_whole_names() {
        for (glob, name, fits) in [
            ("*", "", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*.new", "orders.new", true),
            ("*.new", "orders.new2", false),
            ("é*", "éa", true),
            ("**", "x", true),
        ] {
            assert_eq!(matches(glob, name), fits, "{glob} {name}");
        }
    }

    proptest! {
        #[test]
        fn globs_agree_with_their_meaning(glob in "[ab*]{0,6}", name in "[ab]{0,8}") {
            fn means(glob: &[u8], name: &[u8]) -> bool {
                match (glob.split_first(), name.split_first()) {
                    (None, _) => name.is_empty(),
                    (Some((b'*', rest)), _) =>
                        (0..=name.len()).any(|skip| means(rest, &name[skip..])),
                    (Some((one, rest)), Some((own, others))) =>
                        one == own && means(rest, others),
                    (Some(_), None) => false,
                }
            }
            prop_assert_eq!(matches(&glob, &name), means(glob.as_bytes(), name.as_bytes()));
        }
    }
}
