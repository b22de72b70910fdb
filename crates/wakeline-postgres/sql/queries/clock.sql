-- Reads the store's clock.
SELECT @schema@.clock()
