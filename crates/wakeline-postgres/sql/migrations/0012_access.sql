-- Who may call, and what they did: API keys and the audit of administrative acts.

CREATE TABLE @schema@.api_keys (
    key_id        text COLLATE "C" PRIMARY KEY,
    name          text COLLATE "C" NOT NULL,
    scopes        text NOT NULL,
    digest        bytea NOT NULL,
    former_digest bytea,
    former_until  timestamptz,
    created_at    timestamptz NOT NULL,
    expires_at    timestamptz,
    last_used_at  timestamptz,
    revoked_at    timestamptz
);
CREATE UNIQUE INDEX api_keys_name ON @schema@.api_keys (name) WHERE revoked_at IS NULL;
COMMENT ON COLUMN @schema@.api_keys.scopes IS 'one per line';
COMMENT ON COLUMN @schema@.api_keys.digest IS 'SHA-256 of the secret, which is nowhere';
COMMENT ON COLUMN @schema@.api_keys.former_digest IS 'of the secret before, valid until former_until';

CREATE TABLE @schema@.audit (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     timestamptz NOT NULL,
    actor  text NOT NULL,
    act    text NOT NULL,
    target text NOT NULL,
    detail text NOT NULL
);
CREATE INDEX audit_at ON @schema@.audit (at);
