-- The store's clock at the last commit, the boot of the machine in which it was stored, and the
-- machine's uptime then.
SELECT at, boot, uptime FROM clock WHERE one = 1
