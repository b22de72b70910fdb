-- Records an administrative act, in the transaction of that act. Called by: Core::recorded.
INSERT INTO @schema@.audit (at, actor, act, target, detail) VALUES (@schema@.clock(), $1, $2, $3, $4)
