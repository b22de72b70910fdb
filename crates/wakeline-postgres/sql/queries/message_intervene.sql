-- Retries a message of a group, or gives it up. Called by: QueueMessages::intervene.
SELECT * FROM @schema@.message_intervene($1, $2, $3, $4, $5, $6)
