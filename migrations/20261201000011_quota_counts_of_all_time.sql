-- Counts what quotas over all time have used, so that no charge has to. A migration of its own: it may take a while, and locks
-- no more than these rows. Each row is read in one statement, so its sum and the number of its last entry belong together,
-- whatever is posted meanwhile.

update quotas q set counted_from = 'epoch', counted = now.used, counted_to = now.seq
from (
    select t.account_id, t.subject_kind, t.subject, a.seq,
        coalesce(case t.subject_kind
            when 1 then (select sum(e.use_amount) from entries e where e.account_id = t.account_id and e.member = t.subject)
            else (select sum(e.use_amount) from entries e where e.account_id = t.account_id and e.key_ref = t.subject)
        end, 0) as used
    from quotas t join accounts a on a.id = t.account_id
    where t.window_kind = 3
) now
where q.window_kind = 3 and q.account_id = now.account_id and q.subject_kind = now.subject_kind and q.subject = now.subject;
