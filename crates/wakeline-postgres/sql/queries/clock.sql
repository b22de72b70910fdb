-- The store's clock. Called by: claim and seek, to refuse moments that lie in the future.
SELECT @schema@.clock()
