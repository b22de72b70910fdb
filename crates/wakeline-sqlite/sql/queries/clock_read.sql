-- How far the store's clock had come at the last commit.
-- Called by: Clock::catch_up, in every transaction.
SELECT at FROM clock WHERE one = 1
