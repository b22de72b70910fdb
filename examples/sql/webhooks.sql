-- Sends a webhook event in the transaction of a change to your own table. The application must
-- exist: curl/webhooks.sh creates it.
-- Usage: psql -d DATABASE -f webhooks.sql, while a server runs on the database.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
CREATE TABLE IF NOT EXISTS example_payments (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    amount int NOT NULL
);

-- The endpoints receive the event if and only if the payment exists.
BEGIN;
INSERT INTO example_payments (amount) VALUES (42) RETURNING id, amount \gset
SELECT wakeline.emit('ada', 'invoice.paid', jsonb_build_object('payment', :id, 'amount', :amount),
    p_event_id => 'payment-' || :id || '-' || txid_current()) AS message_id \gset
COMMIT;

-- A server stores the message and its deliveries right after the commit. Wait until it has.
SELECT set_config('example.message', :'message_id', false) \g /dev/null
DO $$
BEGIN
    FOR attempt IN 1..600 LOOP
        EXIT WHEN EXISTS (SELECT FROM wakeline.webhook_deliveries
            WHERE message_id::text = current_setting('example.message'));
        PERFORM pg_sleep(0.05);
    END LOOP;
END
$$;

SELECT state, count(*) FROM wakeline.webhook_deliveries
WHERE message_id::text = :'message_id' GROUP BY state ORDER BY state;
