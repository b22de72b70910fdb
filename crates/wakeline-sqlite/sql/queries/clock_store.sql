-- Writes down the store's clock, and when that is: in which run of the machine, and how far into it.
-- Called by: Clock::store, once in every transaction that wrote something.
UPDATE clock SET at = ?1, boot = ?2, uptime = ?3 WHERE one = 1 AND at < ?1
