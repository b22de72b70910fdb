//! The permissions of API keys and tokens: verbs on names, per API.
//!
//! # Invariants
//! * A scope allows exactly its verb: `admin` includes neither `read` nor any other verb.
//! * Nothing is allowed that no scope allows.

use std::fmt;
use std::str::FromStr;

use crate::name::{self, NameError};

/// The part of the product that a scope is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Realm {
    /// Queues, by name.
    Queue,
    /// Orchestrations, by instance.
    Flow,
    /// Webhooks, by application.
    Hook,
    /// The server itself: metrics, keys, the audit log. It has no names.
    Server,
}

impl Realm {
    const ALL: [Self; 4] = [Self::Queue, Self::Flow, Self::Hook, Self::Server];

    /// Returns the word for it in scopes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Flow => "flow",
            Self::Hook => "hook",
            Self::Server => "server",
        }
    }
}

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read.
    Read,
    /// Submit work: push to queues, start and signal instances (`start`), emit messages (`emit`).
    Push,
    /// Take work and settle it: pop from queues, run activities (`work`), pull deliveries (`pull`).
    Pop,
    /// Change the configuration, without removing anything.
    Configure,
    /// Remove, terminate, and change what concerns all users.
    Admin,
}

impl Verb {
    const ALL: [Self; 5] = [Self::Read, Self::Push, Self::Pop, Self::Configure, Self::Admin];

    /// Returns the word for it in scopes of a realm.
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

/// The reason why a text is not a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// The text does not have three parts.
    #[error("a scope has three parts, like queue:push:orders.*, not {0:?}")]
    Parts(String),
    /// The first part is not a realm.
    #[error("{0:?} is not a domain of scopes: use queue, flow, hook, server or *")]
    Realm(String),
    /// The second part is not a verb of the realm.
    #[error("{0:?} is not a verb of {1}: use read, push, pop, configure, admin or *")]
    Verb(String, String),
    /// The third part cannot match a name.
    #[error(transparent)]
    Glob(#[from] NameError),
}

/// One permission: `realm:verb:name`, where `*` stands for any realm, any verb, or any part of a
/// name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    realm: Option<Realm>,
    verb: Option<Verb>,
    glob: Box<str>,
}

impl Scope {
    /// Creates a scope for a verb on everything, in every realm.
    pub fn of_verb(verb: Verb) -> Self {
        Self { realm: None, verb: Some(verb), glob: "*".into() }
    }

    /// Creates a scope that allows everything.
    pub fn everything() -> Self {
        Self { realm: None, verb: None, glob: "*".into() }
    }

    fn includes_realm(&self, realm: Realm) -> bool {
        self.realm.is_none_or(|own| own == realm)
    }

    fn allows(&self, realm: Realm, verb: Verb) -> bool {
        self.includes_realm(realm) && self.verb.is_none_or(|own| own == verb)
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

/// All permissions of a caller.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// Creates a set of these scopes.
    pub fn new(scopes: Vec<Scope>) -> Self {
        Self(scopes)
    }

    /// Returns the scopes.
    pub fn iter(&self) -> impl Iterator<Item = &Scope> {
        self.0.iter()
    }

    /// Returns whether a verb on a name is allowed.
    pub fn allow(&self, realm: Realm, verb: Verb, name: &str) -> bool {
        self.0.iter().any(|scope| scope.allows(realm, verb) && matches(&scope.glob, name))
    }

    /// Returns whether a verb is allowed on every possible name.
    pub fn allow_all(&self, realm: Realm, verb: Verb) -> bool {
        self.0.iter().any(|scope| scope.allows(realm, verb) && is_all(&scope.glob))
    }

    /// Returns whether a verb is allowed on at least some names.
    pub fn allow_some(&self, realm: Realm, verb: Verb) -> bool {
        self.0.iter().any(|scope| scope.allows(realm, verb))
    }

    /// Returns whether any verb is allowed on a name, so that the caller may know that it exists.
    pub fn see(&self, realm: Realm, name: &str) -> bool {
        self.0.iter().any(|scope| scope.includes_realm(realm) && matches(&scope.glob, name))
    }

    /// Returns whether everything is allowed.
    pub fn is_everything(&self) -> bool {
        let all = |scope: &Scope| scope.realm.is_none() && scope.verb.is_none();
        self.0.iter().any(|scope| all(scope) && is_all(&scope.glob))
    }
}

fn is_all(glob: &str) -> bool {
    glob.bytes().all(|byte| byte == b'*')
}

/// Returns whether a name matches a glob in which `*` stands for any text. Takes linear time per
/// star.
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
    fn a_scope_allows_its_verb_on_its_names_and_nothing_else() {
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
        // What follows the second colon is a name, including its colons.
        let odd: Scope = "queue:read:a:b".parse().expect("a scope");
        assert!(Scopes::new(vec![odd]).allow(Realm::Queue, Verb::Read, "a:b"));
    }

    #[test]
    fn invalid_scopes_are_refused() {
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
