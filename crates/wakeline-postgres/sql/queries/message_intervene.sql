-- Retries a message of a group, or gives it up.
SELECT * FROM @schema@.message_intervene($1, $2, $3, $4, $5, $6)
