-- Whether a statement can be run. Called by: StoreAdmin::ping.
SELECT 1
