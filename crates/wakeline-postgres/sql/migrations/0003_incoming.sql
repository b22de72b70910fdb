-- Messages that arrive in users' own transactions: by the function push, or, under notify = trigger,
-- by a plain INSERT.
--
-- SELECT push('orders', '{"id": 7}') is the supported way to push with nothing but SQL; INSERT INTO
-- incoming (queue, payload) VALUES (...) does the same for set-ups whose rows arrive by other means,
-- and wakes a node if the triggers are installed. It is the only table of this schema that others
-- should write to. A node takes the rows over after the commit and pushes them, so that a user's
-- open transaction holds no lock of ours (it never touches a partition). Rows are taken in order of
-- seq. They are pushed at least once, and exactly once within the queue's dedup window, by their
-- transaction_id.

CREATE TABLE @schema@.incoming (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    partition text COLLATE "C" NOT NULL DEFAULT 'Default',
    payload json NOT NULL,
    transaction_id text COLLATE "C" NOT NULL DEFAULT gen_random_uuid()::text,
    refused text
);
COMMENT ON COLUMN @schema@.incoming.refused IS
    'why the row could not be pushed; such rows stay until somebody mends or deletes them';
CREATE INDEX incoming_ready ON @schema@.incoming (seq) WHERE refused IS NULL;
