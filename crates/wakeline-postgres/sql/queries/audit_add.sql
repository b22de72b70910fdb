-- Records an audit event, in the transaction of its action.
INSERT INTO @schema@.audit (at, actor, act, target, detail) VALUES (@schema@.clock(), $1, $2, $3, $4)
