-- Returns a message's id in its public form: msg_ and 22 digits of base 62. Takes no lock.

CREATE OR REPLACE FUNCTION @schema@.hook_message_name(p_id uuid) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    v_bytes bytea := uuid_send(p_id);
    v_rest numeric := 0;
    v_text text := '';
BEGIN
    FOR i IN 0..15 LOOP
        v_rest := v_rest * 256 + get_byte(v_bytes, i);
    END LOOP;
    FOR i IN 1..22 LOOP
        v_text := substr('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz',
            mod(v_rest, 62)::integer + 1, 1) || v_text;
        v_rest := div(v_rest, 62);
    END LOOP;
    RETURN 'msg_' || v_text;
END
$$;
