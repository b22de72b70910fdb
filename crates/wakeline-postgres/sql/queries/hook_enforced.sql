-- Returns the schemas of those of some event types that enforce theirs. It runs in the transaction
-- that stores the messages.
SELECT t.name, t.schemas FROM @schema@.hook_event_types t
WHERE t.name = ANY ($1) AND t.enforced AND t.schemas IS NOT NULL
