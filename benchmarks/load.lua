-- Sends the bodies of a file in turn, and prints one line of JSON at the end.
-- Arguments: the file (one body per line), the method, a key or nothing. Each @ID@ in a body is replaced by a unique id.

local thread_count = 0

function setup(thread)
  thread:set("number", thread_count)
  thread_count = thread_count + 1
end

function init(arguments)
  bodies = {}
  for line in io.lines(arguments[1]) do
    bodies[#bodies + 1] = line
  end
  method = arguments[2]
  sent = 0
  run = tostring(os.time()) .. "-" .. tostring(math.random(1000000))
  headers = { ["Content-Type"] = "application/json" }
  if arguments[3] then
    headers["Authorization"] = "Bearer " .. arguments[3]
  end
end

function request()
  sent = sent + 1
  local count = 0
  local body = bodies[(sent - 1) % #bodies + 1]:gsub("@ID@", function()
    count = count + 1
    return run .. "-" .. number .. "-" .. sent .. "-" .. count
  end)
  return wrk.format(method, nil, headers, body)
end

function done(summary, latency)
  local failures = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
    + summary.errors.status
  io.write(string.format(
    '{"requests": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "failures": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, failures))
end
