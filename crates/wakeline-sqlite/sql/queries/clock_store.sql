-- Writes down how far the store's clock has come.
-- Called by: Clock::store, once in every transaction that wrote something.
UPDATE clock SET at = ?1 WHERE one = 1 AND at < ?1
