-- Stores the store's clock, the current boot of the machine, and its uptime. Runs once in every
-- transaction that wrote something.
UPDATE clock SET at = ?1, boot = ?2, uptime = ?3 WHERE one = 1 AND at < ?1
