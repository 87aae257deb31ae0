-- Every entry of the hot path paid for an index by kind and time that is asked for rarely. By time, an entry is found by halving:
-- numbers have no gap and effective_at never falls within an account. By kind, the kinds that come with every call
-- (2 CONSUME, 3 AUTH_HOLD, 4 SETTLE, 5 AUTH_RELEASE) are dense enough to be found in the order of their numbers; the others keep an
-- index. A running older program finds the same rows, some of them slower.
create index entries_rare_kind on entries (account_id, kind, seq) where kind <> 2 and kind <> 3 and kind <> 4 and kind <> 5;
drop index entries_kind_time;
