-- Messages for webhook endpoints that arrive in users' own transactions, by the function emit. They
-- share incoming with pushes: one order, one index, one look whether something waits. A row is for a
-- queue or for an application, never for both.

ALTER TABLE @schema@.incoming ALTER COLUMN queue DROP NOT NULL;
ALTER TABLE @schema@.incoming
    ADD COLUMN application text COLLATE "C",
    ADD COLUMN event_type text COLLATE "C",
    ADD COLUMN event_id text COLLATE "C",
    ADD COLUMN channels text[],
    ADD COLUMN message_id uuid,
    ADD CONSTRAINT incoming_addressee CHECK (
        CASE WHEN application IS NULL THEN queue IS NOT NULL
            ELSE queue IS NULL AND event_type IS NOT NULL AND message_id IS NOT NULL END);
COMMENT ON COLUMN @schema@.incoming.application IS
    'whose endpoints get it, by id or uid; NULL: it is for the queue';
