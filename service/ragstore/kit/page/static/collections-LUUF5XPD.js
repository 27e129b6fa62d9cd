import{h as a}from"./chunk-MZOWXIVE.js";import"./chunk-QAXD5V7N.js";export{a as default};
