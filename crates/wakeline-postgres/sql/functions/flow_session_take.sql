-- Assigns a session to an owner if it has none or is the owner's already. Returns false if it
-- belongs to another owner, or if another transaction has locked it. Lock order: the session,
-- without waiting: by an advisory lock, because there may be no row yet.

CREATE OR REPLACE FUNCTION @schema@.flow_session_take(
    p_session text, p_owner text, p_lease_us bigint, p_now timestamptz)
RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    s record;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('@schema@.flow_sessions'), hashtext(p_session)) THEN
        RETURN false;
    END IF;
    SELECT x.owner, x.owned_until INTO s FROM @schema@.flow_sessions x
    WHERE x.session = p_session FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        IF s.owner <> p_owner AND s.owned_until > p_now THEN
            RETURN false;
        END IF;
        UPDATE @schema@.flow_sessions x SET owner = p_owner, active_at = p_now,
            owned_until = p_now + p_lease_us * interval '1 microsecond'
        WHERE x.session = p_session;
        RETURN true;
    END IF;
    IF EXISTS (SELECT FROM @schema@.flow_sessions x WHERE x.session = p_session) THEN
        RETURN false;
    END IF;
    INSERT INTO @schema@.flow_sessions (session, owner, owned_until, active_at)
    VALUES (p_session, p_owner, p_now + p_lease_us * interval '1 microsecond', p_now);
    RETURN true;
END
$$;
