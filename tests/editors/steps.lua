-- Types into Neovim as a user does: arguments are the file to edit and the file that gets what was seen, as JSON.
-- Sourced after the recipe of docs/editors.md, which is the whole configuration.
local file, report = vim.env.STEPS_FILE, vim.env.STEPS_REPORT
local seen = {}

local function shown()
  local found = {}
  for _, each in ipairs(vim.diagnostic.get(0)) do
    table.insert(found, { code = each.code, line = each.lnum + 1, column = each.col + 1, source = each.source })
  end
  return found
end

local function wait_for(count)
  return vim.wait(30000, function() return #vim.diagnostic.get(0) == count end, 20)
end

local function keys(text)
  vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes(text, true, false, true), "tx", false)
end

local function steps()
  vim.cmd("edit " .. file)
  seen.appeared, seen.found = wait_for(1), shown()
  keys("8GOtorch.cuda.current_stream().wait_stream(side)<Esc>")
  seen.vanished, seen.mended = wait_for(0), shown()
  keys("8Gdd")
  seen.back = wait_for(1)
  keys("8G4|")
  vim.ui.select = function(items, _, choose)
    for _, item in ipairs(items) do
      -- A pair until Neovim 0.9, a table since.
      local action = item.action or item[2]
      if action.title:find("Suppress") then
        seen.action = action.title
        return choose(item)
      end
    end
    choose(nil)
  end
  vim.lsp.buf.code_action()
  seen.suppressed = vim.wait(30000, function() return vim.api.nvim_buf_get_lines(0, 7, 8, false)[1]:find("streamlint") ~= nil end, 20)
  seen.silent = wait_for(0)
  seen.text = vim.api.nvim_buf_get_lines(0, 0, -1, false)
end

local ok, problem = pcall(steps)
seen.problem = not ok and tostring(problem) or nil
local out = assert(io.open(report, "w"))
out:write(vim.json and vim.json.encode(seen) or vim.fn.json_encode(seen))
out:close()
vim.cmd("qall!")
