-- Output handler of busted for tools/check.sh: failures and skipped specs with their
-- place, and a line "RESULT passed failed skipped".
return function()
   local busted = require "busted"
   local handler = require "busted.outputHandlers.base"()

   local function indent(text)
      return "    " .. tostring(text):gsub("\n", "\n    ")
   end

   handler.suiteEnd = function()
      local failed = 0
      for _, list in ipairs { handler.failures, handler.errors } do
         for _, f in ipairs(list) do
            failed = failed + 1
            local trace = f.trace or (f.element and f.element.trace) or {}
            io.write("FAIL ", f.name or "?", " (", trace.short_src or "?", ":",
               tostring(trace.currentline or "?"), ")\n", indent(f.message), "\n")
         end
      end
      for _, p in ipairs(handler.pendings) do
         io.write("SKIP ", p.name or "?", p.message and (": " .. tostring(p.message)) or "", "\n")
      end
      io.write(("RESULT %d %d %d\n"):format(handler.successesCount, failed, handler.pendingsCount))
      return nil, true
   end

   handler.error = function(element, parent, message)
      if element.descriptor ~= "it" then
         io.write("FAIL ", element.name or element.descriptor, "\n", indent(message), "\n")
      end
      return handler.baseError(element, parent, message)
   end

   busted.subscribe({ "suite", "end" }, handler.suiteEnd)
   busted.subscribe({ "error", "file" }, handler.error)
   return handler
end
