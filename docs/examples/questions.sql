-- What may the queue `ls` use of each card, what does it use, what does it ask for?
select resource, capability, allocated, request from queue_quota
 where queue = 'ls' and resource not in ('cpu', 'memory')
 order by allocated desc, resource;

-- And what did it use at position 20000? A row holds from one position until another ends it.
select resource, allocated, request from queue_quota_history
 where queue = 'ls' and resource = 'T4'
   and from_position <= 20000 and (to_position is null or to_position > 20000);

-- Which position was it a minute after the log began? (The question above, asked by time.)
select max(position) as position from log
 where recorded_at_ns <= (select min(recorded_at_ns) from log) + 60000000000;

-- Which pod group is next in each queue, and why does it wait? The place is computed, not stored.
-- (Groups created at one moment are ordered by UID when they are decided; here by name.)
select queue, place, pod_group, code from (
    select queue, pod_group, code,
           row_number() over (partition by queue
                              order by priority desc, since_ns, pod_group) as place
      from pod_group
     where phase in ('Pending', 'Inqueue') and pods_bound < min_available
) as waiting
 where place <= 3 order by queue, place;

-- What is the most that the queue `ls` ever used of each card, and at which position did it first?
select resource, most, min(from_position) as since from (
    select resource, from_position, allocated,
           max(allocated) over (partition by resource) as most
      from queue_quota_history where queue = 'ls' and resource not in ('cpu', 'memory')
) as moment
 where allocated = most and most > 0
 group by resource, most order by resource;

-- How many cards of each model are there, in use, and free?
select card, sum(total) as there, sum(allocated) as allocated, sum(free) as free
  from node_card group by card order by card;

-- Which pods were on a node, with which cards, and from which position to which?
select pod, cards, bound_position, released_position, reason from placement
 where node = 'openb-node-0001' order by bound_position;

-- How many pods did each namespace have, how many of them got a node, and how many were evicted for others?
-- With `pod_labels: [team]` in the settings, `json_extract(labels, '$.team')` (PostgreSQL: `labels::jsonb ->> 'team'`) asks by team.
select pod_history.namespace, count(distinct pod_history.uid) as pods,
       count(distinct placement.uid) as placed,
       count(distinct case when evicted_for <> '' then pod_history.uid end) as evicted
  from pod_history left join placement on placement.uid = pod_history.uid
 group by pod_history.namespace order by pod_history.namespace;

-- What was decided, and for which reasons was it no?
select kind, code, count(*) as decisions from decision group by kind, code order by kind, code;

-- What came of it, and how long did the slowest answer take?
select result, count(*) as answers, max(latency_ns) / 1000000 as slowest_ms from outcome group by result;

-- Up to which position have the views been kept?
select name, position from projection order by name;
