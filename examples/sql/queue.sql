-- Pushes a message in the transaction of a change to your own table, and pops it in another one.
-- Usage: psql -d DATABASE -f queue.sql, while a server runs on the database.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
CREATE TABLE IF NOT EXISTS example_orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    total int NOT NULL
);
CREATE TABLE IF NOT EXISTS example_invoices (order_id bigint PRIMARY KEY, total int NOT NULL);

-- The message exists if and only if the order exists, because both are in one transaction.
BEGIN;
INSERT INTO example_orders (total) VALUES (42) RETURNING id, total \gset
SELECT wakeline.push('invoices', jsonb_build_object('order', :id, 'total', :total),
    p_transaction_id => 'order-' || :id) AS transaction_id;
COMMIT;

-- A server moves the message from the table `incoming` to the queue right after the commit. Wait
-- until it has.
DO $$
BEGIN
    FOR attempt IN 1..600 LOOP
        EXIT WHEN EXISTS (SELECT FROM wakeline.messages WHERE queue = 'invoices');
        PERFORM pg_sleep(0.05);
    END LOOP;
END
$$;

-- The invoice and the acknowledgement happen together or not at all.
BEGIN;
CREATE TEMPORARY TABLE taken ON COMMIT DROP AS SELECT * FROM wakeline.pop('invoices', p_batch => 10);
INSERT INTO example_invoices SELECT (payload->>'order')::bigint, (payload->>'total')::int FROM taken;
SELECT wakeline.ack(partition_id, transaction_id, lease_token) FROM taken;
COMMIT;

SELECT order_id, total FROM example_invoices ORDER BY order_id;
SELECT queue, consumer_group, lag FROM wakeline.consumer_groups WHERE queue = 'invoices';
