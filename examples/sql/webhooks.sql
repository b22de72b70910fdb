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
SELECT 'payment-' || :id || '-' || txid_current() AS event_id \gset
SELECT wakeline.emit('ada', 'invoice.paid', jsonb_build_object('payment', :id, 'amount', :amount),
    p_event_id => :'event_id') AS message_id;
COMMIT;

-- A server stores the message and its deliveries right after the commit. Wait until it has.
SELECT set_config('example.event_id', :'event_id', false) \g /dev/null
DO $$
BEGIN
    FOR attempt IN 1..600 LOOP
        EXIT WHEN EXISTS (SELECT FROM wakeline.webhook_deliveries
            WHERE event_id = current_setting('example.event_id'));
        PERFORM pg_sleep(0.05);
    END LOOP;
END
$$;

SELECT event_type, state, attempts FROM wakeline.webhook_deliveries
WHERE event_id = :'event_id' ORDER BY state;
