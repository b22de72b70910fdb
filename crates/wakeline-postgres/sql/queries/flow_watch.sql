-- Records that a waiter watches some outcomes, and reads them.
SELECT * FROM @schema@.flow_watch($1)
