-- The store's clock at the last commit, and when that was: in which run of the machine, and how far into it.
-- Called by: Clock::open and Clock::catch_up, in every transaction.
SELECT at, boot, uptime FROM clock WHERE one = 1
