-- Who may call, and what they did: API keys and the audit of administrative acts.

CREATE TABLE api_keys (
    key_id        TEXT PRIMARY KEY,
    name          TEXT NOT NULL,
    scopes        TEXT NOT NULL,               -- one per line
    digest        BLOB NOT NULL,               -- SHA-256 of the secret, which is nowhere
    former_digest BLOB,                        -- of the secret before, valid until former_until
    former_until  INTEGER,
    created_at    INTEGER NOT NULL,
    expires_at    INTEGER,
    last_used_at  INTEGER,
    revoked_at    INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX api_keys_name ON api_keys (name) WHERE revoked_at IS NULL;

CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at     INTEGER NOT NULL,
    actor  TEXT NOT NULL,
    act    TEXT NOT NULL,
    target TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX audit_at ON audit (at);
