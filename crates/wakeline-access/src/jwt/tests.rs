//! Tokens of every kind, including forged ones.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
use ring::rand::SystemRandom;
use ring::{hmac, signature as signing};
use serde_json::{Value, json};
use signing::KeyPair as _;
use wakeline_core::Realm;

use super::*;

/// Signs tokens.
enum Signer {
    Hs(Vec<u8>),
    Rs(signing::RsaKeyPair),
    Es(signing::EcdsaKeyPair),
    Ed(signing::Ed25519KeyPair),
}

const SECRET: &[u8] = b"a secret of at least thirty-two bytes";

impl Signer {
    fn rsa() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        openssl(folder.path(), "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out key.pem");
        openssl(folder.path(), "pkcs8 -topk8 -nocrypt -in key.pem -outform DER -out key.der");
        let der = std::fs::read(folder.path().join("key.der")).expect("a key");
        Self::Rs(signing::RsaKeyPair::from_pkcs8(&der).expect("an RSA key"))
    }

    fn ec() -> Self {
        let (random, algorithm) = (SystemRandom::new(), &signing::ECDSA_P256_SHA256_FIXED_SIGNING);
        let pkcs8 = signing::EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("random");
        let pair = signing::EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random);
        Self::Es(pair.expect("a P-256 key"))
    }

    fn ed() -> Self {
        let pkcs8 = signing::Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("random");
        Self::Ed(signing::Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).expect("an Ed25519 key"))
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Hs(_) => "HS256",
            Self::Rs(_) => "RS256",
            Self::Es(_) => "ES256",
            Self::Ed(_) => "EdDSA",
        }
    }

    /// Returns the key as an entry of a key set.
    fn jwk(&self, id: &str) -> Value {
        match self {
            Self::Hs(secret) => json!({"kty": "oct", "kid": id, "k": B64.encode(secret)}),
            Self::Rs(pair) => {
                let public = signing::RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
                let (n, e) = (public.n, public.e);
                json!({"kty": "RSA", "kid": id, "use": "sig", "alg": "RS256",
                    "n": B64.encode(n), "e": B64.encode(e)})
            }
            Self::Es(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "kid": id, "x": B64.encode(x),
                    "y": B64.encode(y)})
            }
            Self::Ed(pair) => {
                let x = B64.encode(pair.public_key().as_ref());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": x})
            }
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Hs(secret) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
                hmac::sign(&key, message).as_ref().to_vec()
            }
            Self::Rs(pair) => {
                let mut signed = vec![0; pair.public().modulus_len()];
                let padding = &signing::RSA_PKCS1_SHA256;
                pair.sign(padding, &random, message, &mut signed).expect("signed");
                signed
            }
            Self::Es(pair) => pair.sign(&random, message).expect("signed").as_ref().to_vec(),
            Self::Ed(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    fn token(&self, id: Option<&str>, claims: &Value) -> String {
        let mut header = json!({"alg": self.name(), "typ": "JWT"});
        if let Some(id) = id {
            header["kid"] = json!(id);
        }
        self.signed(&header, claims)
    }

    fn signed(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encoded(header), encoded(claims));
        format!("{message}.{}", B64.encode(self.sign(message.as_bytes())))
    }
}

fn encoded(value: &Value) -> String {
    B64.encode(value.to_string())
}

fn openssl(folder: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    command.args(arguments.split_whitespace()).current_dir(folder).stderr(Stdio::null());
    assert!(command.status().expect("openssl runs").success(), "openssl {arguments}");
}

fn in_secs(secs: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    i64::try_from(now).expect("before the end of time") + secs
}

fn claims() -> Value {
    json!({"sub": "alice", "role": "read-only", "exp": in_secs(60)})
}

fn options(algorithms: &[JwtAlgorithm], keys: JwtKeys) -> JwtOptions {
    let leeway = Duration::from_secs(5);
    let algorithms = algorithms.to_vec();
    JwtOptions { algorithms, keys, issuer: None, audience: Vec::new(), leeway }
}

fn hs() -> (Signer, JwtOptions) {
    let keys = JwtKeys::Secret(SECRET.to_vec());
    (Signer::Hs(SECRET.to_vec()), options(&[JwtAlgorithm::Hs256], keys))
}

const PUBLIC: [JwtAlgorithm; 3] = [JwtAlgorithm::Rs256, JwtAlgorithm::Es256, JwtAlgorithm::EdDsa];

#[tokio::test]
async fn tokens_of_each_kind_identify_their_subject() {
    let folder = tempfile::tempdir().expect("a folder");
    let signers = [Signer::rsa(), Signer::ec(), Signer::ed()];
    let ids = ["r", "e", "d"];
    let keys: Vec<_> = signers.iter().zip(ids).map(|(signer, id)| signer.jwk(id)).collect();
    let path = folder.path().join("keys.json");
    std::fs::write(&path, json!({"keys": keys}).to_string()).expect("written");
    let jwt = Jwt::new(options(&PUBLIC, JwtKeys::File(path)));
    for (signer, id) in signers.iter().zip(ids) {
        let caller = jwt.verify(&signer.token(Some(id), &claims())).await.expect(id);
        assert_eq!((caller.actor(), caller.producer()), ("jwt:alice", Some("alice")));
        assert!(caller.scopes().allow(Realm::Queue, Verb::Read, "q"));
        assert!(!caller.scopes().allow(Realm::Queue, Verb::Push, "q"));
        // If there is only one key of a kind, a token need not name it.
        assert!(jwt.verify(&signer.token(None, &claims())).await.is_ok(), "{id}");
        assert!(jwt.verify(&signer.token(Some("other"), &claims())).await.is_err(), "{id}");
        let mut forged = signer.token(Some(id), &claims());
        let place = forged.rfind('.').expect("two dots") - 2;
        let other = if &forged[place..=place] == "A" { "B" } else { "A" };
        forged.replace_range(place..=place, other);
        assert!(jwt.verify(&forged).await.is_err(), "{id}");
    }
    let (signer, options) = hs();
    let caller = Jwt::new(options).verify(&signer.token(None, &claims())).await;
    assert_eq!(caller.expect("valid").actor(), "jwt:alice");
}

#[tokio::test]
async fn a_public_key_as_pem_verifies_tokens() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |arguments| openssl(folder.path(), arguments);
    run("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out key.pem");
    run("pkey -in key.pem -pubout -out public.pem");
    run("pkcs8 -topk8 -nocrypt -in key.pem -outform DER -out key.der");
    let read = |name: &str| std::fs::read(folder.path().join(name)).expect("a file");
    let signer = Signer::Rs(signing::RsaKeyPair::from_pkcs8(&read("key.der")).expect("a key"));
    let pem = options(&[JwtAlgorithm::Rs256], JwtKeys::Pem(read("public.pem")));
    assert_eq!(pem.check(), Ok(()));
    let jwt = Jwt::new(pem);
    assert!(jwt.verify(&signer.token(None, &claims())).await.is_ok());
    // The public key is no secret: a token signed with it by HMAC is refused.
    let forged = Signer::Hs(read("public.pem"));
    assert!(jwt.verify(&forged.token(None, &claims())).await.is_err());
    let both =
        options(&[JwtAlgorithm::Rs256, JwtAlgorithm::Hs256], JwtKeys::Pem(read("public.pem")));
    assert!(both.check().is_err());
    assert!(Jwt::new(both).verify(&forged.token(None, &claims())).await.is_err());
}

#[tokio::test]
async fn a_token_does_not_choose_how_it_is_verified() {
    let (signer, options) = hs();
    let jwt = Jwt::new(options);
    let unsigned = format!("{}.{}.", encoded(&json!({"alg": "none"})), encoded(&claims()));
    assert!(jwt.verify(&unsigned).await.is_err());
    for algorithm in ["none", "None", "HS384", "RS256", "ES256", "EdDSA", ""] {
        let token = signer.signed(&json!({"alg": algorithm}), &claims());
        assert!(jwt.verify(&token).await.is_err(), "{algorithm}");
    }
    let critical = json!({"alg": "HS256", "crit": ["exp"], "exp": 1});
    assert!(jwt.verify(&signer.signed(&critical, &claims())).await.is_err());
    for odd in ["", ".", "..", "a.b.c", "....", "\u{e9}.x.y"] {
        assert!(jwt.verify(odd).await.is_err(), "{odd}");
    }
    let other = Signer::Hs(b"another secret of thirty-two bytes or more".to_vec());
    assert!(jwt.verify(&other.token(None, &claims())).await.is_err());
}

#[tokio::test]
async fn times_issuers_and_audiences_are_checked() {
    let (signer, plain) = hs();
    let strict = JwtOptions {
        issuer: Some("https://id.example.org".to_owned()),
        audience: vec!["wakeline".to_owned(), "queues".to_owned()],
        ..plain.clone()
    };
    let (plain, strict) = (Jwt::new(plain), Jwt::new(strict));
    let with = |name: &str, value: Value| {
        let mut claims = claims();
        claims["iss"] = json!("https://id.example.org");
        claims["aud"] = json!(["wakeline"]);
        claims[name] = value;
        signer.token(None, &claims)
    };
    let taken = async |jwt: &Jwt, token: String| jwt.verify(&token).await.is_ok();
    assert!(taken(&plain, with("sub", json!("x"))).await);
    assert!(taken(&strict, with("aud", json!("queues"))).await);
    // Clocks may differ by the leeway, and no more.
    assert!(taken(&plain, with("exp", json!(in_secs(-2)))).await);
    assert!(taken(&plain, with("nbf", json!(in_secs(2)))).await);
    for (name, value) in [
        ("exp", json!(in_secs(-10))),
        ("exp", Value::Null),
        ("exp", json!("soon")),
        ("nbf", json!(in_secs(30))),
        ("sub", json!("a\nb")),
        ("sub", json!("x".repeat(256))),
    ] {
        assert!(!taken(&plain, with(name, value.clone())).await, "{name} {value}");
    }
    for (name, value) in [
        ("iss", json!("https://evil.example.org")),
        ("iss", Value::Null),
        ("aud", json!("another")),
        ("aud", Value::Null),
    ] {
        assert!(!taken(&strict, with(name, value.clone())).await, "{name} {value}");
    }
}

#[tokio::test]
async fn roles_and_scopes_give_what_they_name() {
    let (signer, options) = hs();
    let jwt = Jwt::new(options);
    let caller = async |claims: Value| {
        let mut all = json!({"exp": in_secs(60)});
        all.as_object_mut().expect("claims").extend(claims.as_object().expect("claims").clone());
        jwt.verify(&signer.token(None, &all)).await.expect("valid")
    };
    let may = |caller: &Caller, verb| caller.scopes().allow(Realm::Queue, verb, "orders");
    let admin = caller(json!({"role": "admin"})).await;
    assert!(admin.scopes().is_everything());
    let writer = caller(json!({"roles": ["unheard-of", "read-write"]})).await;
    for verb in [Verb::Read, Verb::Push, Verb::Pop, Verb::Configure] {
        assert!(may(&writer, verb));
    }
    assert!(!may(&writer, Verb::Admin));
    let scoped = caller(json!({"scopes": ["queue:push:orders", "nonsense"]})).await;
    assert!(may(&scoped, Verb::Push) && !may(&scoped, Verb::Read));
    let scoped = caller(json!({"scopes": "queue:pop:* flow:read:*"})).await;
    assert!(may(&scoped, Verb::Pop) && !may(&scoped, Verb::Push));
    let nothing = caller(json!({"role": "Admin"})).await;
    assert!(!may(&nothing, Verb::Read));
    assert_eq!((nothing.actor(), nothing.producer()), ("jwt:", None));
}

#[tokio::test]
async fn a_set_has_no_secrets_and_a_changed_file_is_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.json");
    let (first, second) = (Signer::ed(), Signer::ed());
    let shared = Signer::Hs(SECRET.to_vec());
    let write = |keys: Value, age: u64| {
        std::fs::write(&path, keys.to_string()).expect("written");
        let file = std::fs::File::options().write(true).open(&path).expect("there");
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("set");
    };
    write(json!({"keys": [first.jwk("a"), shared.jwk("s")]}), 20);
    let mut all = PUBLIC.to_vec();
    all.push(JwtAlgorithm::Hs256);
    let jwt = Jwt::new(options(&all, JwtKeys::File(path.clone())));
    assert!(jwt.verify(&first.token(Some("a"), &claims())).await.is_ok());
    assert!(jwt.verify(&shared.token(Some("s"), &claims())).await.is_err());
    write(json!("broken"), 10);
    assert!(jwt.verify(&first.token(Some("a"), &claims())).await.is_ok(), "it stays as it was");
    write(json!({"keys": [second.jwk("b")]}), 0);
    assert!(jwt.verify(&second.token(Some("b"), &claims())).await.is_ok());
    assert!(jwt.verify(&first.token(Some("a"), &claims())).await.is_err());
}

/// Serves a key set over HTTP, and counts the requests.
fn serve(answer: impl Fn(usize) -> String + Send + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/keys", listener.local_addr().expect("bound"));
    let count = Arc::new(AtomicUsize::new(0));
    let served = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).expect("a request");
            let body = answer(served.fetch_add(1, Ordering::SeqCst));
            let _ = stream.write_all(body.as_bytes());
        }
    });
    (url, count)
}

fn fine(body: &Value) -> String {
    let body = body.to_string();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn a_set_is_fetched_when_needed_and_again_for_unknown_keys_but_not_often() {
    let (old, new) = (Signer::ed(), Signer::ed());
    let sets = [json!({"keys": [old.jwk("old")]}), json!({"keys": [new.jwk("new")]})];
    let (url, count) = serve(move |nth| fine(&sets[nth.min(1)]));
    let jwt = Jwt::new(options(&PUBLIC, JwtKeys::Url(url)));
    assert_eq!(count.load(Ordering::SeqCst), 0, "no token was verified yet");
    for _ in 0..3 {
        assert!(jwt.verify(&old.token(Some("old"), &claims())).await.is_ok());
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
    // Tokens with an unknown key do not cause repeated fetches.
    for _ in 0..3 {
        assert!(jwt.verify(&new.token(Some("new"), &claims())).await.is_err());
    }
    assert_eq!(count.load(Ordering::SeqCst), 1, "it was fetched just now");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    assert!(jwt.verify(&new.token(Some("new"), &claims())).await.is_ok());
    assert!(jwt.verify(&old.token(Some("old"), &claims())).await.is_err());
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_set_that_cannot_be_fetched_leaves_the_one_that_is_there() {
    let signer = Signer::ed();
    let set = json!({"keys": [signer.jwk("k")]});
    let (url, count) = serve(move |nth| match nth {
        0 => fine(&set),
        1 => "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".to_owned(),
        2 => "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
            .to_owned(),
        _ => fine(&json!("no set")),
    });
    let jwt = Jwt::new(options(&PUBLIC, JwtKeys::Url(url)));
    for round in 1..=4 {
        let verified = jwt.verify(&signer.token(Some("k"), &claims())).await;
        assert!(verified.is_ok(), "{round}");
        assert_eq!(count.load(Ordering::SeqCst), round);
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(601)).await;
        tokio::time::resume();
    }
}
